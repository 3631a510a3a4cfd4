// Creating tables on real servers: the states on the way, and the final weights.

#include "actors/master/table_setup.hpp"

#include "tests/actors/master_parts.hpp"

namespace troupe::actors::table_setup_test {
namespace {

using state = table_setup::state;

class TableSetup : public master_parts_stage {
 protected:
  void start() {
    as_master([this](master_parts& mine) { mine.tables.start(plan_, servers_, [this] { ++ready_; }); });
  }

  state now() const { return parts_->tables.now(); }

  /// Returns the weights of a shard from its server.
  std::vector<float> weights_of(const msg::module_ref& shard) {
    const auto answer = ask<msg::module_state>(shard.server, msg::state_dict{head(0), shard.module});
    run();
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    if (!answer->value) return {};
    const auto numbers = answer->value->entries.at(0).second.as<float>();
    return {numbers.begin(), numbers.end()};
  }

  int ready_ = 0;
};

TEST_F(TableSetup, GivenWeightsAreSpreadRowByRow) {
  // The first table is heavy, and so on all servers; each other table is on one.
  plan({{20, 2, kernels::pooling::sum, false, 50}, {4, 3}, {5, 2}}, 3, 1);
  EXPECT_EQ(now(), state::none);
  start();
  EXPECT_EQ(now(), state::making);
  EXPECT_EQ(ready_, 0);
  run();
  ASSERT_TRUE(complaints_.empty()) << protocol::describe(complaints_[0].error);
  EXPECT_EQ(now(), state::ready);
  EXPECT_EQ(ready_, 1);
  const table_shards& tables = parts_->tables.tables();
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].size(), 3u);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const model::table_spec& spec = data_->spec().tables[t];
    const auto given = data_->start()->tables[t];
    std::vector<float> found(given.size());
    for (std::size_t s = 0; s < tables[t].size(); ++s) {
      EXPECT_EQ(tables[t][s].shard, s);
      EXPECT_EQ(tables[t][s].shards, tables[t].size());
      const auto part = weights_of(tables[t][s]);
      for (std::size_t i = 0; i < part.size(); ++i)
        found.at((i / spec.dim * tables[t].size() + s) * spec.dim + i % spec.dim) = part[i];
    }
    EXPECT_EQ(found, given) << "table " << t;
  }
}

TEST_F(TableSetup, TablesWithoutGivenWeightsAreReadyWhenAllAreMade) {
  plan({{20, 2}, {4, 3}}, 2, 1, false);
  start();
  std::set<state> seen;
  for (bool busy = true; busy; busy = scheduler().try_run_once()) seen.insert(now());
  EXPECT_EQ(seen, (std::set{state::making, state::ready}));
  EXPECT_EQ(ready_, 1);
}

TEST_F(TableSetup, AModelWithoutTablesIsReadyAtOnce) {
  plan({}, 0, 1);
  start();
  EXPECT_EQ(now(), state::ready);
  EXPECT_EQ(ready_, 1);
}

TEST_F(TableSetup, WeightsThatAServerCannotRestoreAreToldAndNothingFollows) {
  plan({{20, 2}}, 1, 1);
  plan_.steps_done = 4;
  plan_.checkpoints.from =
      std::make_shared<const model::checkpoint>(model::checkpoint{.directory = "/nowhere", .manifest = {}});
  start();
  run();
  EXPECT_EQ(now(), state::filling);
  EXPECT_EQ(ready_, 0);
  ASSERT_EQ(complaints_.size(), 1u);
  EXPECT_EQ(complaints_[0].type, "troupe::restore_module");
  EXPECT_EQ(complaints_[0].receiver, servers_[0].address());
  EXPECT_NE(protocol::describe(complaints_[0].error).find("/nowhere"), std::string::npos)
      << protocol::describe(complaints_[0].error);
}

TEST(TableSetupState, TablesAreSetUpOnce) {
  master_parts parts(nullptr);
  run_plan plan;
  parts.tables.start(plan, {}, [] {});
  EXPECT_DEATH(parts.tables.start(plan, {}, [] {}), "assertion failed: may_follow");
}

}  // namespace
}  // namespace troupe::actors::table_setup_test
