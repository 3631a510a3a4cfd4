// The library's exceptions, from errors of actors.

#pragma once

#include "protocol/errors.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

inline error to_error(const caf::error& why) {
  using protocol::errc;
  const bool input = why == errc::bad_input || why == errc::bad_index || why == errc::shape_mismatch;
  const error_kind kind = input ? error_kind::input : why == errc::timeout ? error_kind::deadline : error_kind::run;
  return {kind, protocol::describe(why)};
}

}  // namespace troupe::runtime
