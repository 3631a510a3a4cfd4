// Why a message was refused or an actor ended: a code, and one line of context for the user.

#pragma once

#include <fmt/format.h>

#include <caf/error.hpp>
#include <caf/is_error_code_enum.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "protocol/type_ids.hpp"

namespace troupe::protocol {

enum class errc : std::uint8_t {
  none = 0,
  bad_input,       ///< a setting or the data are wrong
  unknown_module,  ///< a reference to a module that this server does not hold, or an unregistered type
  bad_index,       ///< an index, offset or per-sample weight out of range
  shape_mismatch,  ///< a tensor of another dtype or shape than the receiver expects
  wrong_context,   ///< a message from another run, from a finished step, or in another actor's name
  not_finite,      ///< NaN or Inf in a loss, gradient or weight
  out_of_memory,   ///< something does not fit into the memory of the host or of a device
  exception,       ///< a handler threw
  peer_failed,     ///< a request was left unanswered because its receiver ended
  timeout,         ///< a request was not answered in time
  malformed,       ///< bytes from another process that do not form a message
  /// A compute device, its driver or the connection between devices failed: the request was valid, and may well succeed
  /// in a new process. If a device lacks memory, the code is `out_of_memory` instead.
  device_failed,
};

std::string to_string(errc x);
bool from_string(caf::string_view text, errc& x);
bool from_integer(std::uint8_t number, errc& x);

template <class Inspector>
bool inspect(Inspector& f, errc& x) {
  return caf::default_enum_inspect(f, x);
}

/// Returns an error with one line of context: a text, or a format and its arguments.
caf::error make_failure(errc code, std::string context);

template <class First, class... Rest>
caf::error make_failure(errc code, fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return make_failure(code, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// Returns an error's readable text: for errors from `make_failure`, the context line without options that this program
/// lacks (base/advice.hpp); for others, their meaning. All errors become text here.
std::string describe(const caf::error& error);

/// True if `error` only reports that another actor is gone.
bool is_secondary(const caf::error& error);

/// True if the cause of `error` is in a run's processes, machines or links, not in its job: a new attempt may succeed.
bool is_transient(const caf::error& error);

}  // namespace troupe::protocol

CAF_ERROR_CODE_ENUM(troupe::protocol::errc)
