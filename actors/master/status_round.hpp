// The answers of the master's members to one round of status queries.

#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "protocol/status.hpp"

namespace troupe::actors {

/// A member that does not answer within this time is computing.
constexpr std::chrono::seconds status_timeout{1};

struct status_round {
  msg::header asked;
  msg::run_status overall;
  std::vector<msg::actor_status> groups;
  std::vector<std::size_t> group_of;     ///< by trainer: an index into `groups`
  std::vector<msg::actor_status> links;  ///< in the order of told.nodes
  std::size_t missing = 1;               ///< pending answers, plus one until all members have been asked
};

}  // namespace troupe::actors
