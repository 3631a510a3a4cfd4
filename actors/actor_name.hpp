// The numbers and names of a run's actors, and how an actor reports its failure.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <caf/string_view.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/errors.hpp"

namespace troupe::actors {

/// Actor numbers within a run, as in message headers: master 0, allreduce group 1, then servers, then trainers.
constexpr std::uint32_t master_number = 0;
constexpr std::uint32_t group_number = 1;
/// The number of process `process`'s allreduce group in a run where several processes have trainers.
constexpr std::uint32_t group_sender(std::uint32_t process) { return 0x8000 + process; }
constexpr std::uint32_t server_number(std::uint32_t rank) { return 2 + rank; }
constexpr std::uint32_t trainer_number(std::uint32_t rank, std::uint32_t servers) { return 2 + servers + rank; }
/// The number of process `node` in a run of several processes.
constexpr std::uint32_t node_number(std::uint32_t node) { return 0xfffe - node; }
/// The number of the client that submits a run.
constexpr std::uint32_t client_number = 0xffff;

/// An error that names actor, step and cause, for the one line that ends a run.
inline caf::error failure_of(const std::string& actor, std::uint64_t step, const caf::error& cause) {
  const protocol::errc code = cause.category() == caf::type_id_v<protocol::errc>
                                  ? static_cast<protocol::errc>(cause.code())
                                  : protocol::errc::exception;
  return protocol::make_failure(code, fmt::format("{}, step {}: {}", actor, step, protocol::describe(cause)));
}

/// Makes `self` turn an exception in a handler into such an error, pass it to `tell`, and quit with it.
/// `state` has `name` and `step`.
template <class Self>
void fail_on_exceptions(Self* self, std::function<void(const caf::error&)> tell = {}) {
  self->set_exception_handler([self, tell = std::move(tell)](std::exception_ptr& thrown) -> caf::error {
    caf::error cause = protocol::make_failure(protocol::errc::exception, "an exception of unknown type");
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      cause = protocol::make_failure(
          protocol::errc::out_of_memory,
          "out of memory; use fewer --rows or --trainers, a smaller --dim, --hidden or --batch-size");
    } catch (const std::exception& e) {
      cause = protocol::make_failure(protocol::errc::exception, e.what());
    } catch (...) {
    }
    const caf::error failure = failure_of(self->state.name, self->state.step, cause);
    if (tell) tell(failure);
    return failure;
  });
}

}  // namespace troupe::actors
