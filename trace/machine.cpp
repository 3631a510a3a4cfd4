#include "trace/machine.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "base/host.hpp"
#include "trace/clock.hpp"

namespace troupe::trace {

std::string this_boot() {
  std::string id = boot_id();
  // A clock with an injected fault is shared with no other process.
  if (detail::is_faulty) id += fmt::format("-{}", ::getpid());
  return id;
}

bool is_there(std::string_view boot, std::uint32_t pid) { return boot == this_boot() && troupe::is_alive(pid); }

}  // namespace troupe::trace
