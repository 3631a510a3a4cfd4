// Who waits on whom, and whether that is more than the ordinary give and take of a run under way.

#pragma once

#include <boost/json/object.hpp>

#include "analysis/steps.hpp"
#include "page/source.hpp"

namespace troupe::page {

/// What `troupe trace blocked` says, as JSON (see trace/blocked.hpp), where each wait has its message's `id`, and:
/// `stuck_ns`: for how long what blocks has blocked; `moving`: the run is under way, and that is not long. Long is a
/// second, or three times as long as a step takes if that is longer.
boost::json::object blocked_json(const reading& of, const analysis::step_windows& steps);

}  // namespace troupe::page
