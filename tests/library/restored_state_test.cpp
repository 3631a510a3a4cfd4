// State that a program sets before its loop in a run resumed from a checkpoint: restored state is kept, so that the run
// has the bits of the unbroken one.

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::restored_state_test {
namespace {

/// Sums the numbers it is given.
class total final : public remote_object {
 public:
  static void describe(methods<total>& m) { m.add("add", &total::add); }
  void add(double x) { sum_ += x; }
  named_tensors state_dict() const override {
    return {{"sum", tensor::of(shape(1), std::span<const double>(&sum_, 1))}};
  }
  void load_state_dict(const named_tensors& state) override { sum_ = state.at(0).second.as<double>()[0]; }

 private:
  double sum_ = 0;
};
const registered<total> totals("restored_state_test.total");

/// What `main` makes on the servers.
struct hosted {
  remote_module<nn::embedding_bag> rows;
  remote_module<nn::linear> layer;
  remote_module<total> sum;
};

tensor filled(const shape& lengths, double value) {
  tensor made(lengths);
  for (std::size_t i = 0; i < made.count(); ++i)
    made.as<float>()[i] = static_cast<float>(value + 0.01 * static_cast<double>(i % 7));
  return made;
}

named_tensors of_total(double sum) { return {{"sum", tensor::of(shape(1), std::span<const double>(&sum, 1))}}; }

/// Options of a run.
struct course {
  int break_after = 0;             ///< optimizer steps of this attempt; 0: until the end
  std::uint64_t loads_again = 99;  ///< sets the state again in iterations divisible by this, except the first
  bool makes_late = false;         ///< makes the replica in the first iteration of each attempt
  int servers = 1;                 ///< number of servers the table is spread over
  bool trains_servers = true;      ///< optimizer steps also update the servers
};

task<> load_all(trainer me, hosted on, double value) {
  co_await me.group().barrier();
  if (me.rank() == 1) {
    const named_tensors weight = {{"weight", filled({10, 4}, value)}};
    co_await on.rows.load_state_dict(weight);
    const named_tensors of_layer = {{"weight", filled({3, 2}, value)}, {"bias", filled({3}, value)}};
    co_await on.layer.load_state_dict(of_layer);
    const named_tensors sum = of_total(value);
    co_await on.sum.load_state_dict(sum);
  }
  co_await me.group().barrier();
}

task<> train(trainer me, hosted on, course how) {
  const named_tensors initial = {{"weight", filled({2, 4}, 0.3)}, {"bias", filled({2}, 0.1)}};
  std::vector<data_parallel> model;
  std::vector<distributed_optimizer> optimizer;
  const auto make = [&] {
    model.push_back(me.data_parallel(nn::linear(4, 2)));
    model.back().load_state_dict(initial);
    optimizer.emplace_back(adam{.lr = 0.05}, model.back());
    if (!how.trains_servers) return;
    optimizer.back().add(adam{.lr = 0.05}, on.layer);
    optimizer.back().add(adagrad{.lr = 0.05}, on.rows);
  };
  if (!how.makes_late) make();
  co_await load_all(me, on, 0.25);
  int steps = 0;
  for (const auto epoch : me.steps(3))
    for (const auto step : me.steps(4)) {
      const std::uint64_t number = 4 * epoch + step;
      if (model.empty()) make();
      if (number > 0 && number % how.loads_again == 0) {
        co_await load_all(me, on, 0.5);
        model.back().load_state_dict(initial);
      }
      auto context = me.new_context();
      const std::vector<std::int64_t> ids = {static_cast<std::int64_t>(number % 10), me.rank()};
      const std::vector<std::int64_t> offsets = {0, 1};
      const std::vector<std::int64_t> classes = {0, 2};
      const tensor found = co_await on.rows.forward(context, ids, offsets);
      const tensor hidden = model.back()(context, found);
      const tensor scores = co_await on.layer.forward(context, hidden);
      co_await context.backward(nn::cross_entropy(context, scores, classes));
      if (me.rank() == 0) co_await on.sum.call(&total::add, static_cast<double>(number));
      co_await me.group().barrier();
      co_await optimizer.back().step(context);
      if (++steps == how.break_after && me.rank() == 0) throw std::runtime_error("the power has failed");
    }
}

std::string run(std::vector<std::string> text, course how) {
  text.insert(text.end(), {"--quiet", "--servers", std::to_string(how.servers)});
  test::made_cluster cluster(std::move(text));
  const auto server = cluster.server(0);
  const hosted on{cluster.make<nn::embedding_bag>({.num_embeddings = 10, .embedding_dim = 4}),
                  server.make<nn::linear>({.in_features = 2, .out_features = 3}), server.make<total>()};
  return cluster.run(2, train, on, how).weights_digest;
}

/// Interrupts a run after `broken_after` steps and resumes it; it saves every `saves_every` steps.
void expect_same_bits(int broken_after, int saves_every, course how) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const std::string unbroken = run({}, how);
  course broken = how;
  broken.break_after = broken_after;
  EXPECT_THROW(run({"--save", there, "--checkpoint-every", std::to_string(saves_every)}, broken), error);
  EXPECT_EQ(run({"--resume", there}, how), unbroken)
      << "broken off after " << broken_after << ", saved every " << saves_every;
}

TEST(RestoredState, IsNotSetAgainBeforeTheLoop) {
  expect_same_bits(5, 3, {});
  expect_same_bits(9, 8, {});  // at the end of an epoch
}

TEST(RestoredState, IsSetAgainIfTheCheckpointIsOfStepZero) { expect_same_bits(3, 5, {}); }

TEST(RestoredState, IsSetInTheLoopAsWritten) {
  expect_same_bits(5, 3, {.loads_again = 3});  // in the iteration right after the checkpoint
  expect_same_bits(6, 5, {.loads_again = 3});
  expect_same_bits(9, 8, {.loads_again = 4});
}

TEST(RestoredState, OfAReplicaThatIsMadeInTheLoopStays) { expect_same_bits(5, 3, {.makes_late = true}); }

TEST(RestoredState, OfATableThatIsSpreadOverServersStays) {
  EXPECT_EQ(run({}, {.servers = 3}), run({}, {}));
  expect_same_bits(5, 3, {.servers = 3});
  expect_same_bits(5, 3, {.loads_again = 3, .servers = 3});
}

// Each checkpoint then has the same server state as the one before.
TEST(RestoredState, OfServersThatTakeNoOptimizerStepIsSavedEachTime) {
  for (const int servers : {1, 2}) {
    const course how{.servers = servers, .trains_servers = false};
    const trace::temporary_folder folder;
    EXPECT_EQ(run({"--save", folder.path().string(), "--checkpoint-every", "2"}, how), run({}, how)) << servers;
    expect_same_bits(7, 2, how);
  }
}

// -- states that do not fit -----------------------------------------------------------------

enum class misfit { none, rows, layer };

task<> load_and_train(trainer me, hosted on, misfit which) {
  const shape of_rows(10, which == misfit::rows ? 5 : 4);
  const shape of_bias(which == misfit::layer ? 4 : 3);
  const named_tensors weight = {{"weight", filled(of_rows, 0.5)}};
  co_await on.rows.load_state_dict(weight);
  const named_tensors of_layer = {{"weight", filled({3, 2}, 0.5)}, {"bias", filled(of_bias, 0.5)}};
  co_await on.layer.load_state_dict(of_layer);
  distributed_optimizer optimizer(sgd{.lr = 0.05}, on.rows, on.layer);
  for (const auto step : me.steps(4)) {
    auto context = me.new_context();
    co_await optimizer.step(context);
    if (step == 2 && !me.resumed()) throw std::runtime_error("the power has failed");
  }
}

std::string error_of_loading(std::vector<std::string> text, misfit which) {
  text.emplace_back("--quiet");
  test::made_cluster cluster(std::move(text));
  const auto server = cluster.server(0);
  const hosted on{server.make<nn::embedding_bag>({.num_embeddings = 10, .embedding_dim = 4}),
                  server.make<nn::linear>({.in_features = 2, .out_features = 3}), server.make<total>()};
  return test::error_of([&] { cluster.run(1, load_and_train, on, which); });
}

TEST(RestoredState, ThatDoesNotFitIsRefusedBeforeTheLoopToo) {
  for (const auto& [which, text] :
       {std::pair{misfit::rows, "entry 'weight' is [10, 5] of float32, expected [10, 4] of float32"},
        {misfit::layer, "linear: load_state_dict: 'bias' is [4], the module's is [3]"}}) {
    const trace::temporary_folder folder;
    const std::string there = folder.path().string();
    const std::string first = error_of_loading({"--save", there, "--checkpoint-every", "2"}, misfit::none);
    EXPECT_FINDS(first, "the power has failed");
    const std::string refused = error_of_loading({"--resume", there}, which);
    EXPECT_FINDS(refused, text);
  }
}

// -- calls outside of the run's steps ---------------------------------------------------------

task<> load_as_client(client me, remote_module<nn::embedding_bag> rows) {
  const named_tensors weight = {{"weight", filled({10, 4}, 0.5)}};
  co_await rows.load_state_dict(weight);
  while (!me.run_is_over()) co_await me.sleep(std::chrono::milliseconds(1));
}

task<> train_rows(trainer me, remote_module<nn::embedding_bag> rows, bool* resumed) {
  *resumed = me.resumed();
  distributed_optimizer optimizer(sgd{.lr = 0.05}, rows);
  for ([[maybe_unused]] const auto step : me.steps(4)) {
    auto context = me.new_context();
    co_await optimizer.step(context);
  }
}

std::string run_with_client(std::vector<std::string> text, bool* resumed) {
  text.emplace_back("--quiet");
  test::made_cluster cluster(std::move(text));
  const auto rows = cluster.server(0).make<nn::embedding_bag>(
      {.num_embeddings = 10, .embedding_dim = 4, .init = nn::zeros, .name = "users"});
  cluster.client(load_as_client, rows);
  return test::error_of([&] { cluster.run(1, train_rows, rows, resumed); });
}

TEST(RestoredState, IsNotOverwrittenByAClient) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  bool resumed = true;
  EXPECT_EQ(run_with_client({"--save", there}, &resumed), "no error");
  EXPECT_FALSE(resumed);
  const std::string refused = run_with_client({"--resume", there}, &resumed);
  EXPECT_TRUE(resumed);
  EXPECT_FINDS(refused,
               "load_state_dict of users on server 0 by a client, an object's method or a thread of the "
               "program: this run was resumed, and has restored what it would overwrite");
}

}  // namespace
}  // namespace troupe::restored_state_test
