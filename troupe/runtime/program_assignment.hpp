// A program trainer's knowledge of the run: the members that the order to train lists, and the rules of its optimizer
// steps.

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
  std::vector<std::vector<msg::module_ref>> modules = {};  ///< the shards of each planned module
  msg::allreduce_actor group = {};
  std::uint32_t group_number = 0;
  msg::report_actor reports = {};
  bool remote = false;  ///< whether servers and master are in other processes
  /// The timeout of a request to a server or the master. A call in a group has its own deadline, whose error names the
  /// late members.
  caf::timespan timeout = caf::infinite;

  std::vector<msg::module_ref> shards_of(const reference& module) const;
  /// Calls `what(rank, server)` for each server that has a shard of the module.
  template <class F>
  void for_each_shard(const reference& module, const F& what) const {
    if (!module.planned()) return what(module.server(), servers.at(module.server()));
    for (const msg::module_ref& shard : modules.at(*module.planned())) what(shard.rank, shard.server);
  }
  /// The deadline of a collective.
  std::chrono::milliseconds deadline() const;
};

}  // namespace troupe::runtime
