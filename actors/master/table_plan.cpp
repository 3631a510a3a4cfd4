#include "actors/master/table_plan.hpp"

#include <utility>

#include "actors/server/embedding_bag_arguments.hpp"
#include "model/placement.hpp"

namespace troupe::actors {

table_plan plan_tables(const model::job& what, const std::vector<model::table_spec>& specs) {
  table_plan plan{.accumulate = what.accumulate, .staleness = what.staleness};
  if (specs.empty()) return plan;
  auto places = model::place_tables(specs, what.servers, what.table_split);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const auto split = places[t].size() > 1 ? what.table_split : model::table_split::rows;
    plan.all.push_back({embedding_bag_spec(what, specs[t], t, split), static_cast<std::uint64_t>(specs[t].rows),
                        specs[t].dim, std::move(places[t]), split});
  }
  return plan;
}

}  // namespace troupe::actors
