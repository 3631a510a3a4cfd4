// The host memory that a run needs: its parts compared with counts by hand.

#include "actors/trainer/memory_need.hpp"

#include <gtest/gtest.h>

#include "model/data.hpp"
#include "model/job.hpp"
#include "tests/model/parsed_job.hpp"

namespace troupe::actors {
namespace {

host_need need_of(const model::job& what, const compute_devices& devices = {}) {
  const auto data = model::open_dataset(what);
  EXPECT_TRUE(data);
  return need_on_host(what, (*data)->spec(), devices, 1);
}

const std::vector<model::setting> two_tables = {
    {"data", "synthetic"},          {"tables", "2"}, {"rows", "1000"},  {"dim", "8"},     {"bag", "3"},
    {"batch-size", "100"},          {"hidden", "4"}, {"trainers", "5"}, {"servers", "1"}, {"classes", "2"},
    {"sparse-optimizer", "adagrad"}};

TEST(HostMemory, IsThatOfTablesStepsAndTrainers) {
  const host_need need = need_of(model::parsed(two_tables));
  EXPECT_EQ(need.tables, 2 * 1000 * 8 * 2 * 4.0);  // each number with its optimizer state
  EXPECT_EQ(need.servers, 5 * 100 * (2 * 24.0 + 3 * 40));
  const double ready = 3 * 100 * 6 * 8;
  const double rows = 100 * 16 * 4;
  const double computing = 100 * 2 * (16 + 4 + 2) * 4;
  const double weights = (16 * 4 + 4 + 4 * 2 + 2) * 3 * 4;
  EXPECT_EQ(need.trainers, 5 * (ready + rows + computing + weights));
  EXPECT_EQ(need.all(), need.tables + need.servers + need.trainers);
}

TEST(HostMemory, LeavesOutWhatIsOnDevices) {
  const model::job what = model::parsed(two_tables);
  const host_need all = need_of(what);
  compute_devices servers;
  servers.servers = true;
  compute_devices trainers;
  trainers.trainers = true;
  const host_need tables_there = need_of(what, servers);
  EXPECT_EQ(tables_there.tables, 0);
  EXPECT_EQ(tables_there.servers, 0);
  EXPECT_EQ(tables_there.trainers, all.trainers);
  const host_need trainers_there = need_of(what, trainers);
  EXPECT_EQ(trainers_there.tables, all.tables);
  EXPECT_EQ(trainers_there.trainers, 5 * (3 * 100 * 6 * 8 + 100 * 16 * 4.0));
}

TEST(HostMemory, IsToldFromAGibibyteOn) {
  const model::job what = model::parsed(two_tables);
  constexpr double gib = 1 << 30;
  EXPECT_EQ(describe({.tables = gib - 1}, what, 0), std::nullopt);
  EXPECT_EQ(describe({.tables = gib, .servers = gib / 2, .trainers = 3 * gib}, what, 8 * gib),
            "about 4.5 GiB of memory: tables 1.0, 5 trainers 3.0, servers 0.5");
  EXPECT_EQ(describe({.tables = gib, .trainers = 3 * gib}, what, 2 * gib),
            "about 4.0 GiB of memory: tables 1.0, 5 trainers 3.0, servers 0.0; 2.0 GiB are available: smaller "
            "batches (--batch-size) or fewer --trainers take less");
}

}  // namespace
}  // namespace troupe::actors
