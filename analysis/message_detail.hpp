// One message: its times, what led to it and what came of it, and what it held.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "analysis/causality.hpp"

namespace troupe::analysis {

/// `{id, message, handled: row, causes: [rows, nearest first], effects: [rows], ranges: [...], content: {...}}`;
/// without `handled` for a message that is not recorded.
boost::json::object message_json(const causality& in, std::uint64_t id);

/// A part of what a message held: its name, type, shape and digest; if its bytes are there: min, max, mean, counts of
/// NaN, Inf and zeros, and the first few numbers. Never all of them.
boost::json::object peek(const trace::content_part& part);

}  // namespace troupe::analysis
