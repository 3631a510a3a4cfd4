// The steps of a run, and what each actor did in one, to be drawn as bars.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>

#include "analysis/steps.hpp"

namespace troupe::analysis {

/// The last `last` steps with how long they took, and p50 and p95 over all. Where trainers do not commit together, each
/// step has the trainer that it is of.
boost::json::object steps_json(const trace::recording& of, const step_windows& all, std::size_t last);

/// What each actor did during a step: a row each with bars, at most `bars_most` in all; short ones are left out first.
boost::json::object waterfall_json(const trace::recording& of, const step_window& step, std::size_t bars_most = 4000);

}  // namespace troupe::analysis
