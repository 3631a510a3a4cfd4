// An actor's errors: why it refuses a message, and how it reports its own failure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "base/exception_text.hpp"
#include "kernels/cpu/product_buffers.hpp"
#include "kernels/device.hpp"
#include "protocol/errors.hpp"

namespace troupe::actors {

using protocol::errc;
using protocol::make_failure;

/// Returns an error that names actor, step and cause, for the line that ends a run.
inline caf::error failure_of(const std::string& actor, std::uint64_t step, const caf::error& cause) {
  const errc code = cause.category() == caf::type_id_v<errc> ? static_cast<errc>(cause.code()) : errc::exception;
  return make_failure(code, "{}, step {}: {}", actor, step, protocol::describe(cause));
}

/// Describes the error that a program's run has no server of that rank.
inline std::string no_server(std::uint32_t rank, std::size_t servers) {
  return fmt::format("server {}: there {} {}; begin the program with --servers {}", rank, servers == 1 ? "is" : "are",
                     servers, std::uint64_t{rank} + 1);
}

/// Returns the error code for a device's error.
inline errc code_of(kernels::device_error::reason why) {
  using enum kernels::device_error::reason;
  switch (why) {
    case memory:
      return errc::out_of_memory;
    case failed:
      return errc::device_failed;
    case given_up:
      return errc::peer_failed;
    case refused:
      break;
  }
  return errc::exception;
}

inline caf::error cause_of(const kernels::device_error& failed) {
  return make_failure(code_of(failed.why()), failed.what());
}

inline caf::error out_of_memory(const std::bad_alloc& lack) {
  return make_failure(errc::out_of_memory,
                      "{}; use smaller tables (--rows, --dim), a smaller network (--hidden, --layers), smaller batches "
                      "(--batch-size) or fewer trainers (--trainers)",
                      text_of(lack));
}

/// Returns the error for an exception, with its text.
inline caf::error cause_of(const std::exception_ptr& thrown) {
  using kernels::device_error;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc& e) {
    return out_of_memory(e);
  } catch (const kernels::no_product_memory& e) {
    return make_failure(errc::bad_input, e.what());
  } catch (const device_error& e) {
    return cause_of(e);
  } catch (const std::exception& e) {
    return make_failure(errc::exception, text_of(e));
  } catch (...) {
    return make_failure(errc::exception, "an exception of unknown type");
  }
}

/// Makes `self` turn an exception in a handler into the error of `failure_of`, pass it to `report`, and quit with it.
/// Requires: the actor's state has `name` and `step`.
void fail_on_exceptions(auto* self, std::function<void(const caf::error&)> report = {}) {
  self->set_exception_handler([self, report = std::move(report)](std::exception_ptr& thrown) -> caf::error {
    caf::error failure = failure_of(self->state.name, self->state.step, cause_of(thrown));
    if (report) report(failure);
    return failure;
  });
}

}  // namespace troupe::actors
