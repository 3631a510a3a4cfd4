// One message: its times, what led to it and what came of it, and what it held.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "analysis/causality.hpp"

namespace troupe::page {

/// `{id, name, handled: row, causes: [rows, nearest first], effects: [rows], ranges: [...], content: {...}}`; without
/// `handled` for a message that is not recorded.
boost::json::object message_json(const analysis::causality& in, std::uint64_t id);

}  // namespace troupe::page
