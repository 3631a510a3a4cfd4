// How figures of the run went over its steps: loss, AUC, samples a second, and how long steps took.

#pragma once

#include <boost/json/array.hpp>
#include <cstddef>

#include "analysis/steps.hpp"

namespace troupe::analysis {

/// Each as `{name, unit, points: [[step, value], ...]}`, of at most about `points_most` points: of a stretch that is
/// left out, its least and its largest stay.
boost::json::array curves_of(const trace::recording& of, const step_windows& steps, std::size_t points_most = 1000);

}  // namespace troupe::analysis
