// What a trainer of a user's program knows of the run: what the order to train says of its members, and the rules of
// its optimizer steps.

#pragma once

#include <caf/timespan.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "protocol/messages.hpp"
#include "troupe/runtime/reference.hpp"
#include "troupe/runtime/step_rules.hpp"

namespace troupe::runtime {

struct program_assignment {
  explicit program_assignment(const step_rules& chosen) : rules(chosen) {}
  program_assignment(const msg::train& order, const step_rules& chosen);

  step_rules rules;
  std::uint32_t trainers = 1;
  std::uint64_t seed = 1;
  std::vector<msg::parameter_server_actor> servers = {};   ///< by rank
  std::vector<std::vector<msg::module_ref>> modules = {};  ///< the shards of each that was planned
  msg::allreduce_actor group = {};
  std::uint32_t group_number = 0;
  msg::report_actor reports = {};
  bool remote = false;  ///< servers and master are in other processes
  /// The deadline of a request to a server or the master. A call in a group has one of its own, whose error
  /// names the members that are late.
  caf::timespan timeout = caf::infinite;

  std::vector<msg::module_ref> shards_of(const reference& module) const;
  /// Calls `what(rank, server)` for each server that has a shard of the module.
  template <class F>
  void for_each_shard(const reference& module, const F& what) const {
    if (!module.planned()) return what(module.server(), servers.at(module.server()));
    for (const msg::module_ref& shard : modules.at(*module.planned())) what(shard.rank, shard.server);
  }
  /// How long a collective may take.
  std::chrono::milliseconds deadline() const;
};

}  // namespace troupe::runtime
