#include "model/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace troupe::model::placement_test {
namespace {

using places = std::vector<std::vector<std::uint32_t>>;

table_spec table(std::int64_t rows, std::size_t dim, double indices_per_sample = 1) {
  return {rows, dim, kernels::pooling::sum, false, indices_per_sample};
}

/// Each server's share of the traffic.
std::vector<double> shares(const std::vector<table_spec>& tables, const places& where, std::uint32_t servers) {
  std::vector<double> share(servers);
  double all = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const double traffic = tables[t].indices_per_sample * static_cast<double>(tables[t].dim);
    all += traffic;
    for (const auto server : where[t]) share[server] += traffic / static_cast<double>(where[t].size());
  }
  for (double& s : share) s /= all;
  return share;
}

TEST(Placement, OneServerKeepsEverything) {
  EXPECT_EQ(place_tables(std::vector{table(10, 8), table(1'000'000, 64, 26)}, 1), (places{{0}, {0}}));
}

TEST(Placement, ASingleTableIsSpreadOverAllServers) {
  EXPECT_EQ(place_tables(std::vector{table(1000, 16)}, 3), (places{{0, 1, 2}}));
}

TEST(Placement, EqualTablesAreDealtOutWhole) {
  const std::vector<table_spec> tables(26, table(100'000, 16));
  const auto where = place_tables(tables, 2);
  for (const auto& shards : where) EXPECT_EQ(shards.size(), 1u);
  EXPECT_EQ(shares(tables, where, 2), (std::vector<double>{0.5, 0.5}));
}

TEST(Placement, ATableThatWouldTipTheBalanceIsSpread) {
  const std::vector<table_spec> tables(3, table(1000, 16));
  const auto where = place_tables(tables, 2);
  EXPECT_EQ(where, (places{{0}, {1}, {0, 1}}));
}

TEST(Placement, TheHeaviestTableIsSpreadAndTheLightOnesLevelTheRest) {
  const std::vector<table_spec> tables{table(50, 16), table(2000, 16, 40), table(50, 16, 3), table(50, 16, 3),
                                       table(50, 16, 2)};
  const auto where = place_tables(tables, 3);
  EXPECT_EQ(where[1], (std::vector<std::uint32_t>{0, 1, 2}));
  for (const double share : shares(tables, where, 3)) EXPECT_NEAR(share, 1.0 / 3, 0.1);
}

TEST(Placement, ABigPartOfTheMemoryIsSpreadThoughItsTrafficIsSmall) {
  const std::vector<table_spec> tables{table(100, 16, 20), table(100, 16, 20), table(50'000'000, 16, 0.5)};
  EXPECT_EQ(place_tables(tables, 2), (places{{0}, {1}, {0, 1}}));
}

TEST(Placement, ByColumnsEveryTableIsOnAsManyServersAsItHasColumnsFor) {
  const std::vector<table_spec> tables{table(1000, 16), table(1'000'000, 2, 40), table(3, 1)};
  EXPECT_EQ(place_tables(tables, 3, table_split::columns), (places{{0, 1, 2}, {0, 1}, {0}}));
  EXPECT_EQ(place_tables(tables, 1, table_split::columns), (places{{0}, {0}, {0}}));
}

TEST(Placement, AnyNumberOfServersGetsABalancedShare) {
  std::vector<table_spec> tables;
  for (std::int64_t t = 1; t <= 40; ++t) tables.push_back(table(100 * t, 8, static_cast<double>(t % 7) + 1));
  for (std::uint32_t servers = 1; servers <= 16; ++servers) {
    const auto share = shares(tables, place_tables(tables, servers), servers);
    for (const double s : share) EXPECT_LE(s, 1.35 / servers) << servers;
    EXPECT_NEAR(std::accumulate(share.begin(), share.end(), 0.0), 1, 1e-12);
  }
}

}  // namespace
}  // namespace troupe::model::placement_test
