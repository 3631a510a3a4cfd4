// The allreduce group over several processes: the same bits as in one process, for all layouts, bucket sizes and
// message orders, and an end with the reason if shares do not match.

#include <functional>
#include <numeric>

#include "actors/collective/allreduce_group.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors::allreduce_processes_test {
namespace {

class AllreduceProcesses : public stage {
 protected:
  struct rank_share {
    std::vector<float> numbers;
    std::uint32_t batches = 1;
    bool stop = false;
    bool save = false;
  };

  /// Spawns each process's group; each reaches the others through stand-in actors.
  std::vector<msg::allreduce_actor> spawn_groups(const std::vector<std::uint32_t>& process_of_rank) {
    const std::uint32_t processes = *std::max_element(process_of_rank.begin(), process_of_rank.end()) + 1;
    std::vector<std::shared_ptr<msg::allreduce_actor>> targets;
    std::vector<msg::allreduce_actor> standins;
    for (std::uint32_t i = 0; i < processes; ++i) {
      targets.push_back(std::make_shared<msg::allreduce_actor>());
      standins.push_back(stand_in(targets.back()));
    }
    std::vector<msg::allreduce_actor> groups;
    for (std::uint32_t me = 0; me < processes; ++me) {
      group_layout layout{process_of_rank, standins, me};
      layout.groups[me] = nullptr;
      groups.push_back(spawn(allreduce_group, std::uint64_t{1}, std::move(layout)));
      *targets[me] = groups.back();
    }
    return groups;
  }

  msg::allreduce_actor stand_in(const std::shared_ptr<msg::allreduce_actor>& target) {
    return spawn([target](msg::allreduce_actor::pointer self) {
      return msg::allreduce_actor::behavior_type{
          [](msg::reduce&) -> caf::result<msg::reduced> {
            return protocol::make_failure(protocol::errc::bad_input, "not over a link");
          },
          [self, target](msg::bucket_share& share) {
            if (*target) self->send(*target, std::move(share));
          },
          [self, target](msg::bucket_sum& part) {
            if (*target) self->send(*target, std::move(part));
          },
          [](msg::group_devices&) {}, [](const msg::actor_query&) { return msg::actor_status{}; }};
    });
  }

  static msg::header head(std::uint64_t step, std::uint64_t run = 1) { return {run, step, 9, 0, 1, 0}; }

  static msg::reduce to_reduce(std::uint64_t step, std::uint32_t rank, std::uint32_t bucket, const rank_share& share) {
    return {head(step),    rank,       bucket,
            share.batches, share.stop, msg::tensor::own(share.numbers.size(), 1, share.numbers),
            share.save};
  }

  /// Returns every rank's answer, by rank. Messages arrive in an order drawn from `seed`; 0: in order.
  std::vector<msg::reduced> exchange(const std::vector<std::uint32_t>& process_of_rank,
                                     const std::vector<rank_share>& shares, std::uint64_t seed) {
    const auto groups = spawn_groups(process_of_rank);
    std::vector<std::shared_ptr<outcome<msg::reduced>>> answers;
    for (std::uint32_t rank = 0; rank < shares.size(); ++rank)
      answers.push_back(ask<msg::reduced>(groups[process_of_rank[rank]], to_reduce(1, rank, 0, shares[rank])));
    seed == 0 ? run() : run_shuffled(seed);
    std::vector<msg::reduced> all;
    for (const auto& answer : answers) {
      EXPECT_TRUE(answer->value) << (answer->pending() ? "is pending" : protocol::describe(answer->error));
      all.push_back(answer->value.value_or(msg::reduced{}));
    }
    return all;
  }

  /// Numbers of very different magnitudes, so that a different order of summing gives different bits.
  static std::vector<rank_share> random_shares(std::size_t ranks, std::size_t count, std::uint64_t seed) {
    model::random_sequence random(model::mix(seed));
    std::vector<rank_share> shares(ranks);
    for (rank_share& share : shares) {
      for (std::size_t i = 0; i < count; ++i)
        share.numbers.push_back((static_cast<float>(random.below(2'000'001)) - 1e6F) *
                                std::ldexp(1.0F, static_cast<int>(random.below(60)) - 30));
    }
    return shares;
  }

  void expect_bits_of_one_process(const std::vector<std::uint32_t>& process_of_rank,
                                  const std::vector<rank_share>& shares, std::uint64_t seed) {
    const auto expected = exchange(std::vector<std::uint32_t>(shares.size(), 0), shares, 0).front();
    for (const msg::reduced& one : exchange(process_of_rank, shares, seed)) {
      EXPECT_TRUE(one.grad.bytes == expected.grad.bytes) << shares.front().numbers.size() << " numbers, seed " << seed;
      EXPECT_EQ(one.stop, expected.stop);
      EXPECT_EQ(one.save, expected.save);
    }
  }

  /// The group of rank 0; ranks 1 and 2 are in another process, which never answers.
  msg::allreduce_actor lonely_group() {
    const auto nobody = stand_in(std::make_shared<msg::allreduce_actor>());
    return spawn(allreduce_group, std::uint64_t{1}, group_layout{{0, 1, 1}, {msg::allreduce_actor(), nobody}, 0});
  }

  /// Expects that the messages end the group with an error with this code whose text contains `text`.
  template <class... Messages>
  void expect_end(const msg::allreduce_actor& group, protocol::errc code, const std::string& text,
                  Messages... messages) {
    const auto reason = watch(group);
    run();
    (caf::anon_send(group, std::move(messages)), ...);
    run();
    ASSERT_TRUE(*reason) << text;
    EXPECT_EQ(**reason, code) << text;
    EXPECT_NE(protocol::describe(**reason).find(text), std::string::npos) << protocol::describe(**reason);
    EXPECT_NE(protocol::describe(**reason).find("allreduce, step 1: "), std::string::npos)
        << protocol::describe(**reason);
  }

  static msg::bucket_share share_of(std::uint32_t rank, std::uint64_t first, std::uint64_t count, std::size_t numbers,
                                    std::uint64_t step = 1) {
    return {head(step), rank, 0, 1, false, first, count, msg::tensor::own(numbers, 1, std::vector<float>(numbers, 1))};
  }

  /// One trainer's `steps` steps of two buckets. Like a trainer, it waits for both means before the next step. Calls
  /// `check` with each mean, and counts them in `means`.
  void take_part(const msg::allreduce_actor& group, std::uint32_t rank, std::uint64_t steps,
                 std::function<rank_share(std::uint64_t step, std::uint32_t bucket)> share,
                 std::function<void(const msg::reduced&)> check, std::shared_ptr<std::size_t> means) {
    spawn([=](caf::event_based_actor* self) {
      const auto begin = std::make_shared<std::function<void(std::uint64_t)>>();
      const auto missing = std::make_shared<int>(0);
      *begin = [=, again = std::weak_ptr(begin)](std::uint64_t step) {
        if (step > steps) return;
        *missing = 2;
        for (std::uint32_t bucket = 0; bucket < 2; ++bucket)
          self->request(group, caf::infinite, to_reduce(step, rank, bucket, share(step, bucket)))
              .then(
                  [=, next = again.lock()](const msg::reduced& mean) {
                    check(mean);
                    ++*means;
                    if (--*missing == 0) (*next)(step + 1);
                  },
                  [](const caf::error& error) { ADD_FAILURE() << protocol::describe(error); });
      };
      (*begin)(1);
    });
  }

  static msg::bucket_sum sum_of(std::uint64_t first, std::size_t numbers) {
    return {head(1), 0, first, false, msg::tensor::own(numbers, 1, std::vector<float>(numbers, 1))};
  }
};

const std::vector<std::vector<std::uint32_t>> layouts = {{0, 1},       {0, 1, 2},    {0, 0, 1},         {1, 0, 1, 2, 0},
                                                         {2, 1, 1, 0}, {0, 1, 2, 3}, {3, 1, 0, 4, 2, 1}};

// Whole if at most 64 KiB go to all other processes together; gathered up to 64 KiB by four or more processes; else in
// slices.
constexpr std::size_t counts[] = {1, 3, 1000, 8192, 16384, 16385, 40'003};

TEST_F(AllreduceProcesses, EveryLayoutGivesTheBitsOfOneProcess) {
  for (const auto& layout : layouts)
    for (const std::size_t count : counts)
      expect_bits_of_one_process(layout, random_shares(layout.size(), count, count), 0);
}

TEST_F(AllreduceProcesses, TheOrderOfMessagesDoesNotShow) {
  for (const auto& layout : layouts)
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      expect_bits_of_one_process(layout, random_shares(layout.size(), seed % 2 == 0 ? 100 : 16'999, seed), seed);
}

TEST_F(AllreduceProcesses, RanksWithoutABatchDoNotCountAnywhere) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{33'000}}) {
    for (std::uint32_t without = 0; without < 8; ++without) {
      auto shares = random_shares(3, count, without);
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        if ((without >> rank & 1U) != 0) shares[rank] = {std::vector<float>(count), 0};
      expect_bits_of_one_process({0, 1, 1}, shares, 1 + without);
      expect_bits_of_one_process({0, 1, 2}, shares, 0);
    }
  }
}

TEST_F(AllreduceProcesses, RanksWithSeveralBatchesCountSoOften) {
  auto shares = random_shares(3, 20'000, 5);
  shares[1].batches = 4;
  expect_bits_of_one_process({0, 1, 0}, shares, 3);
}

TEST_F(AllreduceProcesses, OneWishToStopOrForACheckpointReachesAllProcesses) {
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    for (const bool stop : {true, false})
      for (const std::size_t count : {5, 40'003}) {
        auto shares = random_shares(4, count, 1);
        (stop ? shares[rank].stop : shares[rank].save) = true;
        const auto expect_on_all = [&](const std::vector<std::uint32_t>& process_of_rank) {
          for (const msg::reduced& one : exchange(process_of_rank, shares, 0)) {
            EXPECT_EQ(one.stop, stop);
            EXPECT_EQ(one.save, !stop);
          }
        };
        expect_on_all({0, 1, 2, 3});
        shares.pop_back();
        expect_on_all({0, 1, 2});
      }
}

TEST_F(AllreduceProcesses, StepsAndBucketsDoNotMix) {
  const std::vector<std::uint32_t> layout = {0, 1, 1};
  constexpr std::uint64_t steps = 5;
  const auto value_of = [](std::uint64_t step, std::uint32_t bucket) { return static_cast<float>(step * 10 + bucket); };
  const auto share = [&](std::uint64_t step, std::uint32_t bucket) {
    return rank_share{std::vector<float>(bucket == 0 ? 4 : 17'000, value_of(step, bucket)), 1, false};
  };
  const auto check = [&](const msg::reduced& mean) {
    const float expected = value_of(mean.head.step, mean.bucket) * 3 * (1.0F / 3.0F);
    EXPECT_EQ(mean.grad.as<float>().front(), expected);
    EXPECT_EQ(mean.grad.as<float>().back(), expected);
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto groups = spawn_groups(layout);
    const auto means = std::make_shared<std::size_t>(0);
    for (std::uint32_t rank = 0; rank < 3; ++rank) take_part(groups[layout[rank]], rank, steps, share, check, means);
    run_shuffled(seed);
    EXPECT_EQ(*means, 3 * steps * 2) << "seed " << seed;
  }
}

TEST_F(AllreduceProcesses, SharesThatDoNotFitEndTheGroupWithTheReason) {
  expect_end(lonely_group(), protocol::errc::bad_input, "a bucket of rank 3, the group has 3", share_of(3, 0, 4, 4));
  expect_end(lonely_group(), protocol::errc::bad_input, "a bucket of rank 0 from another process",
             share_of(0, 0, 4, 4));
  expect_end(lonely_group(), protocol::errc::wrong_context, "bucket 0: a share of rank 1 twice", share_of(1, 0, 4, 4),
             share_of(1, 0, 4, 4));
  expect_end(lonely_group(), protocol::errc::shape_mismatch, "rank 2 sent 20 bytes, rank 1 sent 16",
             share_of(1, 0, 4, 4), share_of(2, 0, 5, 5));
  msg::bucket_share doubles = share_of(1, 0, 2, 4);
  doubles.grad = msg::tensor::own(2, 1, std::vector<double>{1, 2});
  expect_end(lonely_group(), protocol::errc::shape_mismatch,
             "bucket 0: rank 1 sent 0 numbers from 0 on of 2, expected 2 from 0 on", doubles);
  msg::bucket_share elsewhere = share_of(1, 0, 4, 4);
  elsewhere.head = head(1, 2);
  expect_end(lonely_group(), protocol::errc::wrong_context, "a bucket of run 2, this is run 1", elsewhere);
}

TEST_F(AllreduceProcesses, DevicesOfOthersEndAGroupOnTheProcessor) {
  const auto devices_of = [](std::uint32_t process, std::size_t id_bytes) {
    return msg::group_devices{head(1), process, "host", {"GPU-1"}, msg::blob::own(std::vector<std::byte>(id_bytes))};
  };
  expect_end(lonely_group(), protocol::errc::bad_input,
             "trainers 1, 2 on CUDA devices and trainer 0 on the processor do not mix; give all of them",
             devices_of(1, 128));
  expect_end(lonely_group(), protocol::errc::wrong_context, "devices of process 0, which does not take part",
             devices_of(0, 128));
  expect_end(lonely_group(), protocol::errc::wrong_context, "devices of process 2", devices_of(2, 128));
  expect_end(lonely_group(), protocol::errc::wrong_context, "devices of process 1", devices_of(1, 127));
}

TEST_F(AllreduceProcesses, SharesThatCannotBeUnderWayEndTheGroupWithTheReason) {
  expect_end(lonely_group(), protocol::errc::wrong_context,
             "bucket 0 while those of steps 2 and 3 are under way, at most two steps can be", share_of(1, 0, 4, 4, 2),
             share_of(1, 0, 4, 4, 3), share_of(1, 0, 4, 4, 1));
  msg::bucket_share far = share_of(1, 0, 4, 4);
  far.bucket = 1024;
  expect_end(lonely_group(), protocol::errc::bad_input, "bucket 1024, there are at most 1024", far);
  const auto group = lonely_group();
  const auto mean = ask<msg::reduced>(group, to_reduce(1, 0, 0, {{1, 2, 3, 4}}));
  for (std::uint32_t rank = 1; rank < 3; ++rank) caf::anon_send(group, share_of(rank, 0, 4, 4));
  run();
  EXPECT_TRUE(mean->value);
  expect_end(group, protocol::errc::wrong_context, "bucket 0 is over", share_of(1, 0, 4, 4));
}

TEST_F(AllreduceProcesses, AProcessSpeaksForItsOwnRanksOnly) {
  const auto nobody = stand_in(std::make_shared<msg::allreduce_actor>());
  constexpr std::size_t third = 20'000;  // so that each process sums a slice
  for (const bool honest : {true, false}) {
    const auto target = std::make_shared<msg::allreduce_actor>();
    const auto first = stand_in(target);
    const auto second = stand_in(target);
    *target =
        spawn(allreduce_group, std::uint64_t{1},
              group_layout{
                  {0, 1, 2}, {msg::allreduce_actor(), nobody, nobody}, 0, {}, {{}, first.address(), second.address()}});
    const auto reason = watch(*target);
    caf::anon_send(first, share_of(1, 0, 3 * third, third));
    run();
    EXPECT_FALSE(*reason);
    caf::anon_send(honest ? second : first, share_of(2, 0, 3 * third, third));
    run();
    ASSERT_EQ(reason->has_value(), !honest);
    if (!honest) {
      EXPECT_NE(protocol::describe(**reason).find("a bucket of rank 2 from a process without that rank"),
                std::string::npos);
      continue;
    }
    caf::anon_send(first, sum_of(2 * third, third));
    run();
    ASSERT_TRUE(*reason);
    EXPECT_NE(protocol::describe(**reason).find("an unexpected sum of"), std::string::npos)
        << protocol::describe(**reason);
  }
}

TEST_F(AllreduceProcesses, SumsThatNobodyOwesEndTheGroupWithTheReason) {
  expect_end(lonely_group(), protocol::errc::wrong_context, "which is not open", sum_of(0, 4));
  expect_end(lonely_group(), protocol::errc::shape_mismatch, "an unexpected sum of", share_of(1, 0, 4, 4),
             sum_of(0, 4));
  constexpr std::size_t half = 20'000;
  expect_end(lonely_group(), protocol::errc::shape_mismatch, "an unexpected sum of", share_of(1, 0, 2 * half, half),
             sum_of(half, half), sum_of(half, half));
}

}  // namespace
}  // namespace troupe::actors::allreduce_processes_test
