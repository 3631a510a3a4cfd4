// The steps of a run as a page draws them: what each actor did in a step, as bars, and how figures changed, as curves.

#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>

#include "analysis/steps.hpp"

namespace troupe::analysis {

/// The newest `last` steps with their times, and p50 and p95 over all. Where trainers do not commit together, each step
/// names its trainer.
boost::json::object steps_json(const trace::recording& of, const step_windows& all, std::size_t last);

/// What each actor did during a step: a row per actor with bars, at most `bars_most` in all; the shortest are left out.
boost::json::object waterfall_json(const trace::recording& of, const step_window& step, std::size_t bars_most = 4000);

/// Loss, AUC, samples a second and so on by step, and the time of each step. Each is `{name, unit, points: [[step,
/// value], ...]}` with at most about `points_most` points: of points that are left out, the least and largest stay.
boost::json::array curves_of(const trace::recording& of, const step_windows& steps, std::size_t points_most = 1000);

}  // namespace troupe::analysis
