#include "actors/common/ask.hpp"

#include <fmt/format.h>

#include <chrono>

#include "actors/common/actor_name.hpp"

namespace troupe::actors {

caf::error not_answered(const question& what, std::string_view message) {
  return make_failure(
      errc::timeout, "{} did not answer {} within {} s; --request-timeout allows more",
      what.number == master_number ? "the master" : fmt::format("server {}", what.number - server_number(0)), message,
      std::chrono::duration<double>(what.timeout).count());
}

}  // namespace troupe::actors
