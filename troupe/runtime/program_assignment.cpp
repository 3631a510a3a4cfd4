#include "troupe/runtime/program_assignment.hpp"

#include "base/number.hpp"

namespace troupe::runtime {

program_assignment::program_assignment(const msg::train& order, const step_rules& chosen)
    : rules(chosen),
      trainers(order.trainers),
      modules(order.tables),
      group(order.group),
      group_number(order.group_number),
      reports(order.reports),
      remote(order.remote) {
  for (const msg::server_place& one : order.servers) servers.push_back(one.server);
  for (const auto& [setting, text] : order.job)
    if (setting == "seed") seed = parse_number<std::uint64_t>(text).value_or(1);
  if (order.request_timeout_ms > 0) timeout = std::chrono::milliseconds(order.request_timeout_ms);
}

std::vector<msg::module_ref> program_assignment::shards_of(const reference& module) const {
  if (module.planned()) return modules.at(*module.planned());
  msg::module_ref one;
  one.server = servers.at(module.server());
  one.module = module.module();
  one.rank = module.server();
  return {one};
}

std::chrono::milliseconds program_assignment::deadline() const {
  if (timeout == caf::infinite) return default_deadline;
  return std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
}

}  // namespace troupe::runtime
