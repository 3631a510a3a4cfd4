// Trainers and servers in two processes: a server answers as within one process, groups sum in rank order, and whole
// runs give the bits of one process.

#include <bit>
#include <cmath>

#include "actors/collective/allreduce_group.hpp"
#include "actors/master/master.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "model/exact_sum.hpp"
#include "tests/nodes/two_nodes.hpp"

namespace troupe::nodes::two_nodes_test {
namespace {

// -- a server there, called from here ---------------------------------------------

class TwoNodesServer : public TwoNodes {
 protected:
  static constexpr std::size_t table_rows = 6;
  static constexpr std::size_t dim = 4;

  msg::header head(std::uint64_t step) { return {1, step, 9, 0, ++sequence_, 0}; }

  template <class T, class Message>
  T answer(const msg::parameter_server_actor& server, Message message) {
    const auto asked = here_.ask<T>(server, std::move(message));
    run();
    EXPECT_TRUE(asked->value) << (asked->pending() ? "is pending" : protocol::describe(asked->error));
    return asked->value.value_or(T());
  }

  /// Spawns a server for two trainers with a table [6, 4]; returns its handle here.
  msg::parameter_server_actor make_server(actors::staged_system& where, const char* optimizer = "sgd") {
    auto server = where.spawn(actors::parameter_server, std::uint64_t{1}, 0U);
    if (is_there(server)) server = across(server);
    const msg::module_spec spec{"EmbeddingBag",
                                {{"num_embeddings", std::to_string(table_rows)},
                                 {"embedding_dim", std::to_string(dim)},
                                 {"mode", "sum"},
                                 {"seed", "1"},
                                 {"table", "0"},
                                 {"optimizer", optimizer},
                                 {"lr", "0.5"},
                                 {"reduce", "sum"}}};
    const auto made = answer<msg::module_ref>(server, msg::instantiate{head(0), spec, 0, 1, 2, 1, 0, 0});
    EXPECT_EQ(made.server, server);
    module_ = made.module;
    return server;
  }

  /// A server in the other process; row r of its table is 8r, 8r + 1, 8r + 2, 8r + 3.
  msg::parameter_server_actor server_with_known_rows() {
    auto server = make_server(there_);
    std::vector<float> weights;
    for (std::size_t r = 0; r < table_rows; ++r)
      for (std::size_t c = 0; c < dim; ++c) weights.push_back(static_cast<float>(8 * r + c));
    msg::tensor table = msg::tensor::own(table_rows, dim, weights);
    answer<msg::committed>(server, msg::load_state_dict{head(0), module_, {{"weight", std::move(table)}}});
    expected_ = weights;
    return server;
  }

  /// Subtracts `amount` from every number of the expected row `r`.
  void expect_less(std::size_t r, float amount) {
    for (std::size_t c = 0; c < dim; ++c) expected_[r * dim + c] -= amount;
  }

  void expect_rows(const msg::parameter_server_actor& server, std::uint64_t step) {
    EXPECT_EQ(numbers_of(answer<msg::rows>(server, look_up(step, {0, 1, 2, 3, 4, 5}, {})).tables.at(0)), expected_);
    const auto state = answer<msg::module_state>(server, msg::state_dict{head(step - 1), module_});
    EXPECT_EQ(numbers_of(state.entries.at(0).second), expected_);
  }

  static std::vector<float> numbers_of(const msg::tensor& t) {
    const auto numbers = t.as<float>();
    return {numbers.begin(), numbers.end()};
  }

  static msg::blob list(std::vector<std::int64_t> numbers) { return msg::blob::own(std::move(numbers)); }

  msg::lookup look_up(std::uint64_t step, std::vector<std::int64_t> indices, std::vector<std::int64_t> offsets) {
    return {head(step), {{module_, list(std::move(indices)), list(std::move(offsets)), {}}}};
  }

  msg::gradient grad(std::uint64_t step, std::uint32_t rank, std::vector<std::int64_t> indices,
                     std::vector<std::int64_t> offsets, std::vector<float> numbers, bool ends_step = true) {
    msg::tensor matrix = msg::tensor::own(offsets.size(), dim, std::move(numbers));
    return {head(step),
            rank,
            true,
            ends_step,
            {{module_, list(std::move(indices)), list(std::move(offsets)), {}, std::move(matrix)}}};
  }

  /// Bag b consists of `dim` numbers each[b].
  static std::vector<float> repeated(const std::vector<float>& each) {
    std::vector<float> all;
    for (const float one : each) all.insert(all.end(), dim, one);
    return all;
  }

  void send(const msg::parameter_server_actor& server, msg::gradient message) {
    caf::anon_send(server, std::move(message));
    run();
  }

  std::vector<msg::tensor> converse(const msg::parameter_server_actor& server);

  std::uint64_t module_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<float> expected_;
};

TEST_F(TwoNodesServer, PooledRowsAndTheTableAfterAStepAreThoseOfTheClosedForm) {
  const auto server = server_with_known_rows();
  ASSERT_TRUE(is_there(server));
  // The bags {1, 3}, {} and {3, 3, 0}.
  const auto pooled = answer<msg::rows>(server, look_up(1, {1, 3, 3, 3, 0}, {0, 2, 2}));
  EXPECT_EQ(pooled.head.step, 1u);
  EXPECT_EQ(pooled.missing, 0u);
  EXPECT_EQ(numbers_of(pooled.tables.at(0)), (std::vector<float>{32, 34, 36, 38, 0, 0, 0, 0, 48, 51, 54, 57}));

  const auto next = here_.ask<msg::rows>(server, look_up(2, {3}, {}));
  send(server, grad(1, 0, {1, 3, 3, 3, 0}, {0, 2, 2}, repeated({1, 2, 3})));
  EXPECT_TRUE(next->pending()) << "the other trainer's gradient is not there";
  send(server, grad(1, 1, {5}, {0}, repeated({0.25F})));
  // lr 0.5, applied to the sums over each row's bags.
  expect_less(0, 0.5F * 3);
  expect_less(1, 0.5F * 1);
  expect_less(3, 0.5F * (1 + 3 + 3));
  expect_less(5, 0.5F * 0.25F);
  ASSERT_TRUE(next->value) << protocol::describe(next->error);
  EXPECT_EQ(numbers_of(next->value->tables.at(0)), (std::vector<float>{20.5F, 21.5F, 22.5F, 23.5F}));
  expect_rows(server, 2);
}

TEST_F(TwoNodesServer, AStepThatAllAgreeOnIsScaledAsTheySay) {
  const auto server = server_with_known_rows();
  send(server, grad(1, 0, {2}, {0}, repeated({3}), false));
  send(server, grad(1, 1, {2, 4}, {0, 1}, repeated({1, 2}), false));
  const auto first = here_.ask<msg::squared_norm>(server, msg::gradient_norm{head(1), 0});
  run();
  EXPECT_TRUE(first->pending());
  const auto second = answer<msg::squared_norm>(server, msg::gradient_norm{head(1), 1});
  for (const msg::squared_norm& told : {first->value.value(), second}) {
    const auto sum = model::exact_sum::from(told.limbs.as<std::int64_t>());
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->value(), 4.0 * (3 + 1) * (3 + 1) + 4.0 * 2 * 2);
  }
  const auto done = here_.ask<msg::committed>(server, msg::optimizer_step{head(1), 0, true, 0.5F});
  answer<msg::committed>(server, msg::optimizer_step{head(1), 1, true, 0.5F});
  EXPECT_TRUE(done->value);
  expect_less(2, 0.5F * 0.5F * 4);
  expect_less(4, 0.5F * 0.5F * 2);
  expect_rows(server, 2);
}

TEST_F(TwoNodesServer, ALookupOfNothingGetsNothing) {
  const auto server = server_with_known_rows();
  const auto no_bags = answer<msg::rows>(server, look_up(1, {}, {}));
  EXPECT_EQ(no_bags.tables.at(0).rows, 0u);
  EXPECT_EQ(no_bags.tables.at(0).cols, dim);
  EXPECT_TRUE(answer<msg::rows>(server, msg::lookup{head(1), {}}).tables.empty());
}

/// Returns a server's answers to five steps of two trainers with numbers of all magnitudes, its rows, and its
/// optimizer's state.
std::vector<msg::tensor> TwoNodesServer::converse(const msg::parameter_server_actor& server) {
  model::random_sequence random(model::mix(7));
  const auto number = [&random] {
    return (static_cast<float>(random.below(2'000'001)) - 1e6F) *
           std::ldexp(1.0F, static_cast<int>(random.below(40)) - 30);
  };
  std::vector<msg::tensor> said;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<std::int64_t> indices;
      for (int i = 0; i < 7; ++i) indices.push_back(static_cast<std::int64_t>(random.below(table_rows)));
      const std::vector<std::int64_t> offsets = {0, 3, 4};
      std::vector<float> numbers;
      for (std::size_t i = 0; i < offsets.size() * dim; ++i) numbers.push_back(number());
      for (const dtype type : {dtype::f32, dtype::bf16}) {
        msg::lookup wanted = look_up(step, indices, offsets);
        wanted.type = type;
        said.push_back(answer<msg::rows>(server, std::move(wanted)).tables.at(0));
      }
      caf::anon_send(server, grad(step, rank, indices, offsets, std::move(numbers)));
      if (rank == 0) continue;
      run();
    }
  }
  for (const auto& [name, entry] : answer<msg::module_state>(server, msg::state_dict{head(5), module_}).entries)
    said.push_back(entry);
  said.push_back(answer<msg::tensor>(server, msg::row_digests{head(5), module_, 0, table_rows}));
  return said;
}

TEST_F(TwoNodesServer, TheSameConversationGivesTheSameBitsWithinOneProcess) {
  for (const char* optimizer : {"sgd", "adagrad", "adam"}) {
    const auto across_nodes = converse(make_server(there_, optimizer));
    const auto within_one = converse(make_server(here_, optimizer));
    ASSERT_EQ(across_nodes.size(), within_one.size());
    for (std::size_t i = 0; i < across_nodes.size(); ++i) {
      EXPECT_EQ(across_nodes[i].type, within_one[i].type);
      EXPECT_EQ(across_nodes[i].rows, within_one[i].rows);
      EXPECT_TRUE(across_nodes[i].bytes == within_one[i].bytes) << optimizer << ", answer " << i;
    }
  }
}

TEST_F(TwoNodesServer, ARefusalNamesServerStepAndCause) {
  const auto server = server_with_known_rows();
  const auto answer = here_.ask<msg::rows>(server, look_up(1, {6}, {0}));
  run();
  EXPECT_EQ(answer->error, protocol::errc::bad_index);
  EXPECT_EQ(protocol::describe(answer->error),
            "server 0, step 1: table 0, sample 0: index 6 is outside [0, 6) of shard 0 of 1");
}

TEST_F(TwoNodesServer, AGradientThatIsWrongEndsTheServerWithTheReason) {
  const auto server = server_with_known_rows();
  const auto reason = here_.watch(server);
  run();
  send(server, grad(1, 2, {0}, {0}, repeated({1})));
  ASSERT_TRUE(*reason);
  EXPECT_EQ(**reason, protocol::errc::bad_input);
  EXPECT_EQ(protocol::describe(**reason), "server 0, step 1: a gradient of rank 2, there are 2 trainers");
}

// -- ranks in both processes --------------------------------------------------------

class TwoNodesGroup : public TwoNodes {
 protected:
  /// Spawns one group here with ranks 0 and 2, and one in the other process with rank 1.
  void make_groups() {
    here_group_ = here_.spawn(actors::allreduce_group, std::uint64_t{1},
                              actors::group_layout{ranks, {msg::allreduce_actor(), stand_in(here_, 1)}, 0});
    there_group_ = there_.spawn(actors::allreduce_group, std::uint64_t{1},
                                actors::group_layout{ranks, {stand_in(there_, 0), msg::allreduce_actor()}, 1});
    others_ = {across(here_group_), across(there_group_)};
  }

  /// A stand-in for a process's group that is spawned later.
  msg::allreduce_actor stand_in(actors::staged_system& where, std::size_t process) {
    return where.spawn([this, process](msg::allreduce_actor::pointer self) {
      return msg::allreduce_actor::behavior_type{
          [](msg::reduce&) -> caf::result<msg::reduced> {
            return protocol::make_failure(protocol::errc::bad_input, "not over a link");
          },
          [=, this](msg::bucket_share& share) { self->send(others_[process], std::move(share)); },
          [=, this](msg::bucket_sum& part) { self->send(others_[process], std::move(part)); },
          [](msg::group_devices&) {}, [](const msg::actor_query&) { return msg::actor_status{}; }};
    });
  }

  const std::vector<std::uint32_t> ranks = {0, 1, 0};  ///< by process
  msg::allreduce_actor here_group_;
  msg::allreduce_actor there_group_;
  std::vector<msg::allreduce_actor> others_;  ///< by process; each handle as the other process has it
};

TEST_F(TwoNodesGroup, RanksOnBothNodesGetTheSumInRankOrderBitForBit) {
  make_groups();
  model::random_sequence random(model::mix(3));
  // A bucket that each process sends whole, and one of which each process sums a slice.
  for (const std::size_t count : {std::size_t{5}, std::size_t{40'003}}) {
    std::vector<std::vector<float>> shares(3);
    for (auto& share : shares)
      for (std::size_t i = 0; i < count; ++i)
        share.push_back((static_cast<float>(random.below(2'000'001)) - 1e6F) *
                        std::ldexp(1.0F, static_cast<int>(random.below(60)) - 30));
    std::vector<std::shared_ptr<actors::outcome<msg::reduced>>> answers;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      msg::reduce share{{1, count, 9, 0, 1, 0}, rank, 0, 1, rank == 1, msg::tensor::own(count, 1, shares[rank])};
      answers.push_back(rank == 1 ? there_.ask<msg::reduced>(there_group_, std::move(share))
                                  : here_.ask<msg::reduced>(here_group_, std::move(share)));
    }
    run_shuffled(count);
    for (const auto& answer : answers) {
      ASSERT_TRUE(answer->value) << protocol::describe(answer->error);
      EXPECT_TRUE(answer->value->stop) << "rank 1 wishes it";
      const auto mean = answer->value->grad.as<float>();
      ASSERT_EQ(mean.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = ((shares[0][i] + shares[1][i]) + shares[2][i]) * (1.0F / 3.0F);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(mean[i]), std::bit_cast<std::uint32_t>(expected)) << i;
      }
    }
  }
}

// -- whole runs ---------------------------------------------------------------------

class TwoNodesRun : public TwoNodes {
 protected:
  /// Requests a run of two servers and two trainers; each bit of `who_is_there` puts one of them into the other
  /// process. Master and group are here.
  void begin(unsigned who_is_there) {
    const auto boss = here_.spawn(actors::master, std::uint64_t{1}, actors::run_observer{}, actors::run_checkpoints{},
                                  std::optional<actors::node_rules>(), actors::plan_job);
    ends_here_.clear();
    ends_there_.clear();
    const auto place = [&](unsigned bit, auto behavior, auto... args) {
      if ((who_is_there >> bit & 1U) == 0) {
        auto made = here_.spawn(behavior, std::uint64_t{1}, args...);
        ends_here_.push_back(here_.watch(made));
        return made;
      }
      auto made = there_.spawn(behavior, std::uint64_t{1}, args...);
      ends_there_.push_back(there_.watch(made));
      return across(made);
    };
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      caf::anon_send(boss, msg::join_server{{}, place(rank, actors::parameter_server, rank), rank});
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      caf::anon_send(boss, msg::join_trainer{{}, place(2 + rank, actors::trainer, rank, 2U), rank});
    const std::vector<model::setting> job = {{"data", "tutorial"}, {"servers", "2"},   {"trainers", "2"},
                                             {"steps", "25"},      {"clip-norm", "1"}, {"seed", "3"}};
    answer_ = here_.ask<msg::run_result>(boss, troupe::msg::run{{}, job, true});
  }

  using ends = std::vector<std::shared_ptr<std::optional<caf::error>>>;

  static bool all_over(const ends& which) {
    return std::ranges::all_of(which, [](const auto& one) { return one->has_value(); });
  }

  std::shared_ptr<actors::outcome<msg::run_result>> answer_;
  ends ends_here_;
  ends ends_there_;
};

TEST_F(TwoNodesRun, RunsGiveTheBitsOfOneProcessWhoeverIsOnTheOtherNode) {
  msg::run_result expected;
  for (unsigned who_is_there = 0; who_is_there < 16; ++who_is_there) {
    begin(who_is_there);
    run_shuffled(who_is_there);
    ASSERT_TRUE(answer_->value) << who_is_there
                                << (answer_->pending() ? " is pending" : protocol::describe(answer_->error));
    EXPECT_TRUE(all_over(ends_here_) && all_over(ends_there_)) << "the master ends its members";
    const msg::run_result& result = *answer_->value;
    EXPECT_EQ(result.steps, 25u);
    if (who_is_there == 0) expected = result;
    EXPECT_EQ(result.weights_digest, expected.weights_digest) << who_is_there;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(result.loss), std::bit_cast<std::uint64_t>(expected.loss)) << who_is_there;
    EXPECT_TRUE(result.dense.bytes == expected.dense.bytes) << who_is_there;
    ASSERT_EQ(result.tables.size(), expected.tables.size());
    for (std::size_t t = 0; t < result.tables.size(); ++t)
      EXPECT_TRUE(result.tables[t].bytes == expected.tables[t].bytes) << who_is_there << ", table " << t;
  }
}

TEST_F(TwoNodesRun, ARunThatLosesAServerEndsNamingItWhereverItIs) {
  constexpr unsigned server_1 = 1U << 1U;
  begin(server_1);
  const std::size_t whole = run();
  ASSERT_TRUE(answer_->value);
  constexpr std::size_t parts = 20;
  for (std::size_t part = 1; part < parts; ++part) {
    begin(server_1);
    run(whole * part / parts);
    cut();
    run();
    EXPECT_TRUE(answer_->pending()) << "a better reason is waited for";
    here_.scheduler().advance_time(std::chrono::seconds(1));
    run();
    EXPECT_EQ(answer_->error, protocol::errc::peer_failed) << part;
    const std::string text = protocol::describe(answer_->error);
    EXPECT_TRUE(text.starts_with("server 1, step ") && text.ends_with(": its connection was lost")) << text;
    EXPECT_TRUE(all_over(ends_here_)) << part;
    connect();
  }
}

}  // namespace
}  // namespace troupe::nodes::two_nodes_test
