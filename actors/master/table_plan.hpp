// What the servers of a run make: its tables and other modules, each cut into shards, and the rules of their training.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "model/table_split.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// A table that the servers make, shard by shard.
struct planned_table {
  msg::module_spec spec;
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::vector<std::uint32_t> servers = {};  ///< the rank of each shard's server
  model::table_split split = model::table_split::rows;

  model::shard_of shard(std::size_t index) const {
    return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(servers.size()), split};
  }
};

struct table_plan {
  std::vector<planned_table> all = {};
  /// Global steps in an optimizer step of the tables, and how many optimizer steps lookups may run ahead.
  std::uint32_t accumulate = 1;
  std::uint32_t staleness = 0;
  /// Whether modules of one server may call those of another.
  bool servers_talk = false;
  /// The number of the resumed run's steps with gradients for each server, by its rank; empty: all of them.
  std::vector<std::uint64_t> server_steps = {};

  /// Returns how many of the resumed run's `steps_done` steps had gradients for that server.
  std::uint64_t steps_of(std::uint32_t server, std::uint64_t steps_done) const {
    return server_steps.empty() ? steps_done : server_steps.at(server);
  }
};

/// Returns the tables of a job, placed on its servers.
table_plan plan_tables(const model::job& what, const std::vector<model::table_spec>& specs);

}  // namespace troupe::actors
