// Trainers that wait in collectives or for a tensor: the board shows it, and the trainer that the others wait for is
// named.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/record/recording.hpp"
#include "troupe/troupe.hpp"

namespace troupe::shown_calls_test {
namespace {

constexpr std::uint32_t observer = 3;  ///< the trainer that observes, and ends the run with what it has seen

/// Which ranks the call of each trainer waits for, e.g. `1 in all_reduce #2 of trainers 0..2 from 0, 2`.
std::vector<std::string> calls_of(const trace::recording& run) {
  std::vector<std::string> all;
  for (const trace::actor_state& one : run.actors)
    for (const auto& call : one.calls)
      all.push_back(one.name + " in " + title_of(call.what) + ": " + trace::trainers_text(call.what.missing.ranks()));
  std::ranges::sort(all);
  return all;
}

/// Polls until the board shows these calls. Then the other trainers are idle, and nothing changes any more.
std::string verdict_when(const std::string& folder, const std::vector<std::string>& calls) {
  while (true) {
    const auto run = trace::read_recording({.paths = {folder}});
    if (run && calls_of(*run) == calls) {
      // Their message handlers must also have ended.
      const bool is_at_rest = std::ranges::all_of(run->actors, [](const trace::actor_state& one) {
        return one.message_begin < 0 || one.name == "trainer " + std::to_string(observer);
      });
      if (is_at_rest) return analysis::find_blocked(*run).verdict;
    }
    std::this_thread::yield();
  }
}

enum class mistake { skips, receives, never_sends, many, meets_elsewhere };

/// Has a deadline of its own, so that the trainers do not detect by themselves that they wait for each other.
group all_of(trainer me) { return me.group().with_deadline(default_deadline - std::chrono::seconds(1)); }

/// The group of trainers 0 and 1.
group pair_of(trainer me) { return all_of(me).subgroup({0, 1}); }

group subgroup_of_all(trainer me) { return all_of(me).subgroup({0, 1, 2, 3}); }

task<> hang(trainer me, mistake what, std::string folder, std::vector<std::string> calls) {
  if (me.rank() == observer) throw error(error_kind::run, verdict_when(folder, calls));
  const group some = all_of(me).subgroup({0, 1, 2});
  const std::vector<float> ones = {1};
  const tensor one = tensor::of<float>(shape(1), ones);
  co_await some.all_reduce(one);
  const bool is_odd = me.rank() == 1;
  switch (what) {
    case mistake::skips:
      if (!is_odd) co_await some.all_reduce(one);
      co_await pair_of(me).barrier();
      break;
    case mistake::receives:
      if (is_odd) co_await some.recv(0, 9);
      co_await some.barrier();
      break;
    case mistake::never_sends:
      if (me.rank() == 2) co_await some.recv(1, 4);
      if (is_odd) co_await me.group().recv(observer);
      break;
    case mistake::meets_elsewhere: {  // gcc 12 destroys a conditional expression's temporary twice in a co_await
      const group there = is_odd ? subgroup_of_all(me) : all_of(me);
      co_await there.barrier();
      break;
    }
    case mistake::many: {  // more than fit on the board: as some end, it shows others
      std::vector<future<tensor>> sums;
      for (int i = 0; i < (is_odd ? 6 : 8); ++i) sums.push_back(some.all_reduce(one));
      for (future<tensor>& sum : sums) co_await std::move(sum);
      co_await pair_of(me).barrier();
      break;
    }
  }
}

std::string seen(mistake what, const std::vector<std::string>& calls) {
  const trace::temporary_folder folder;
  return test::error_of([&] {
    test::run_with({"--threads", "4", "--trace", "ring", "--trace-dir", folder.path().string()}, 4, hang, what,
                   folder.path().string(), calls);
  });
}

TEST(ShownCalls, WhoSkipsACollectiveIsNamed) {
  const std::string text = seen(mistake::skips, {"trainer 0 in all_reduce #2 of trainers 0..2: trainer 1",
                                                 "trainer 1 in barrier #1 of trainers 0, 1: trainer 0",
                                                 "trainer 2 in all_reduce #2 of trainers 0..2: trainer 1"});
  EXPECT_NE(
      text.find("all_reduce #2 of trainers 0..2: trainer 1 has not called it; it is in barrier #1 of trainers 0, 1"),
      std::string::npos)
      << text;
}

TEST(ShownCalls, WhoReceivesWhereTheOthersMeetIsNamed) {
  const std::string text =
      seen(mistake::receives, {"trainer 0 in barrier #2 of trainers 0..2: trainer 1",
                               "trainer 1 in recv with tag 9 of trainer 1 from trainer 0: trainer 0",
                               "trainer 2 in barrier #2 of trainers 0..2: trainer 1"});
  EXPECT_FINDS(text,
               "barrier #2 of trainers 0..2: trainer 1 has not called it; it is in recv with tag 9 of trainer 1 "
               "from trainer 0");
}

TEST(ShownCalls, OfManyCallsTheBoardShowsTheFirstThatAreOpen) {
  const std::string text = seen(mistake::many, {"trainer 0 in all_reduce #8 of trainers 0..2: trainer 1",
                                                "trainer 0 in all_reduce #9 of trainers 0..2: trainer 1",
                                                "trainer 1 in barrier #1 of trainers 0, 1: trainer 0",
                                                "trainer 2 in all_reduce #8 of trainers 0..2: trainer 1",
                                                "trainer 2 in all_reduce #9 of trainers 0..2: trainer 1"});
  EXPECT_FINDS(text, "all_reduce #8 of trainers 0..2: trainer 1 has not called it");
}

TEST(ShownCalls, ASubgroupOfAllTrainersIsNotTheGroupOfAll) {
  const std::string text =
      seen(mistake::meets_elsewhere, {"trainer 0 in barrier #1 of trainers 0..3: trainers 1, 3",
                                      "trainer 1 in barrier #1 of trainers 0..3 in their group 2: trainers 0, 2, 3",
                                      "trainer 2 in barrier #1 of trainers 0..3: trainers 1, 3"});
  EXPECT_FINDS(text, "barrier #1 of trainers 0..3 in their group 2");
}

// The observer is busy, and in the end all others wait for it.
TEST(ShownCalls, ReceiptsLeadToWhoDoesNotSend) {
  const std::string text =
      seen(mistake::never_sends, {"trainer 1 in recv with tag 0 of trainer 1 from trainer 3: trainer 3",
                                  "trainer 2 in recv with tag 4 of trainer 2 from trainer 1: trainer 1"});
  EXPECT_FINDS(text, "recv with tag 0 of trainer 1 from trainer 3: trainer 3 has not sent it; it is ");
}

}  // namespace
}  // namespace troupe::shown_calls_test
