// How a job's tables are assigned to its servers.

#include "actors/master/table_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors::table_plan_test {
namespace {

using ranks = std::vector<std::uint32_t>;

model::job job_of(std::uint32_t servers, model::table_split split) {
  model::job made = model::parse_job({}).value();
  made.servers = servers;
  made.table_split = split;
  made.accumulate = 3;
  made.staleness = 2;
  return made;
}

bool has(const msg::module_spec& spec, const std::string& name, const std::string& value) {
  return std::ranges::any_of(spec.args, [&](const auto& one) { return one.first == name && one.second == value; });
}

TEST(TablePlan, AHeavyTableIsOnAllServersAndTheOthersOnOneEach) {
  const table_plan plan =
      plan_tables(job_of(3, model::table_split::rows), {{20, 2, kernels::pooling::sum, false, 50}, {4, 3}, {5, 2}});
  ASSERT_EQ(plan.all.size(), 3U);
  EXPECT_EQ(plan.all[0].servers, (ranks{0, 1, 2}));
  EXPECT_EQ(plan.all[1].servers.size(), 1U);
  EXPECT_EQ(plan.all[2].servers.size(), 1U);
  EXPECT_EQ(plan.all[1].rows, 4U);
  EXPECT_EQ(plan.all[1].dim, 3U);
  EXPECT_TRUE(has(plan.all[1].spec, "table", "1"));
  EXPECT_EQ(plan.all[0].shard(2), (model::shard_of{2, 3, model::table_split::rows}));
  EXPECT_EQ(plan.accumulate, 3U);
  EXPECT_EQ(plan.staleness, 2U);
}

TEST(TablePlan, ATableOfOneColumnIsNotCutByColumns) {
  const table_plan plan = plan_tables(job_of(2, model::table_split::columns), {{20, 4}, {4, 1}});
  ASSERT_EQ(plan.all.size(), 2U);
  EXPECT_EQ(plan.all[0].servers, (ranks{0, 1}));
  EXPECT_EQ(plan.all[0].split, model::table_split::columns);
  EXPECT_TRUE(has(plan.all[0].spec, "split", "columns"));
  EXPECT_EQ(plan.all[1].servers.size(), 1U);
  EXPECT_EQ(plan.all[1].split, model::table_split::rows);
  EXPECT_FALSE(has(plan.all[1].spec, "split", "columns"));
}

TEST(TablePlan, AModelWithoutTablesNeedsNoServers) {
  EXPECT_TRUE(plan_tables(job_of(0, model::table_split::rows), {}).all.empty());
}

TEST(TablePlan, AServerHadGradientsForAllStepsUnlessTheCheckpointSaysOtherwise) {
  table_plan plan;
  EXPECT_EQ(plan.steps_of(1, 9), 9U);
  plan.server_steps = {9, 4};
  EXPECT_EQ(plan.steps_of(0, 9), 9U);
  EXPECT_EQ(plan.steps_of(1, 9), 4U);
}

}  // namespace
}  // namespace troupe::actors::table_plan_test
