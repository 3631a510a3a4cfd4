#include "trace/machine.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "trace/clock.hpp"

namespace troupe::trace {

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unnamed";
}

std::string this_boot() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  // A clock that has been made wrong is nobody else's.
  if (detail::is_faulty) id += fmt::format("-{}", ::getpid());
  return id;
}

bool is_there(std::string_view boot, std::uint32_t pid) {
  if (pid == 0 || boot != this_boot()) return false;
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

}  // namespace troupe::trace
