// The library's exceptions, from errors of actors.

#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "protocol/errors.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

inline error to_error(const caf::error& why) {
  using protocol::errc;
  const bool input = why == errc::bad_input || why == errc::bad_index || why == errc::shape_mismatch;
  const error_kind kind = input ? error_kind::input : why == errc::timeout ? error_kind::deadline : error_kind::run;
  return {kind, protocol::describe(why), protocol::is_transient(why)};
}

/// Ends a trainer function when the run is to stop. No std::exception, so that it passes through handlers of those.
struct run_stopped {};

/// The error of a call that is not answered in time. `what`: as in `counter.add on server 0`.
inline error not_in_time(const std::string& what, std::chrono::duration<double> allowed) {
  return {error_kind::deadline, fmt::format("{} did not return within {} s", what, allowed.count())};
}

}  // namespace troupe::runtime
