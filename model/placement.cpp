#include "model/placement.hpp"

#include <algorithm>
#include <numeric>

namespace troupe::model {

namespace {

double traffic_of(const table_spec& table) { return table.indices_per_sample * static_cast<double>(table.dim); }
double weights_of(const table_spec& table) { return static_cast<double>(table.rows) * static_cast<double>(table.dim); }

constexpr double tolerance = 1.25;
// Smaller tables are placed by traffic only.
constexpr double big_table_weights = 1 << 22;

/// The load of a server.
struct load {
  double traffic = 0;
  double weights = 0;
  auto operator<=>(const load&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

}  // namespace

std::vector<std::vector<std::uint32_t>> place_tables(std::span<const table_spec> tables, std::uint32_t servers,
                                                     table_split split) {
  std::vector<std::uint32_t> everyone(servers);
  std::iota(everyone.begin(), everyone.end(), 0U);
  std::vector<std::vector<std::uint32_t>> places(tables.size(), everyone);
  if (split == table_split::columns) {
    for (std::size_t t = 0; t < tables.size(); ++t) places[t].resize(std::min<std::size_t>(servers, tables[t].dim));
    return places;
  }
  load fair;
  for (const table_spec& table : tables) {
    fair.traffic += traffic_of(table) / servers;
    fair.weights += weights_of(table) / servers;
  }
  std::vector<std::size_t> order(tables.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t t) { return traffic_of(tables[t]); });

  std::vector<load> loads(servers);
  for (const std::size_t t : order) {
    const load wanted{traffic_of(tables[t]), weights_of(tables[t])};
    const auto least = std::ranges::min_element(loads);
    const bool is_too_much = least->traffic + wanted.traffic > tolerance * fair.traffic ||
                             wanted.weights > std::max(tolerance * fair.weights, big_table_weights);
    places[t] = is_too_much ? everyone : std::vector{static_cast<std::uint32_t>(least - loads.begin())};
    for (const std::uint32_t server : places[t]) {
      loads[server].traffic += wanted.traffic / static_cast<double>(places[t].size());
      loads[server].weights += wanted.weights / static_cast<double>(places[t].size());
    }
  }
  return places;
}

}  // namespace troupe::model
