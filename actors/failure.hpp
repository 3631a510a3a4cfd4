// An actor's errors: why it refuses a message, and how it reports its own failure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "protocol/errors.hpp"

namespace troupe::actors {

using protocol::errc;
using protocol::make_failure;

/// Returns an error that names actor, step and cause, for the line that ends a run.
inline caf::error failure_of(const std::string& actor, std::uint64_t step, const caf::error& cause) {
  const errc code = cause.category() == caf::type_id_v<errc> ? static_cast<errc>(cause.code()) : errc::exception;
  return make_failure(code, "{}, step {}: {}", actor, step, protocol::describe(cause));
}

/// Says that a program's run has no server of that rank.
inline std::string no_server(std::uint32_t rank, std::size_t servers) {
  return fmt::format("server {}: there {} {}; begin the program with --servers {}", rank, servers == 1 ? "is" : "are",
                     servers, std::uint64_t{rank} + 1);
}

/// Makes `self` turn an exception in a handler into such an error, pass it to `tell`, and quit with it.
/// Requires: the actor's state has `name` and `step`.
void fail_on_exceptions(auto* self, std::function<void(const caf::error&)> tell = {}) {
  self->set_exception_handler([self, tell = std::move(tell)](std::exception_ptr& thrown) -> caf::error {
    caf::error cause = make_failure(errc::exception, "an exception of unknown type");
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      cause = make_failure(errc::out_of_memory,
                           "out of memory; use fewer --rows or --trainers, a smaller --dim, --hidden or --batch-size");
    } catch (const std::exception& e) {
      cause = make_failure(errc::exception, e.what());
    } catch (...) {
    }
    const caf::error failure = failure_of(self->state.name, self->state.step, cause);
    if (tell) tell(failure);
    return failure;
  });
}

}  // namespace troupe::actors
