// The steps of a run, and what each actor did in one.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string_view>

#include "analysis/steps.hpp"

namespace troupe::page {

/// The last `last` steps with how long they took, and p50 and p95 over all. Where trainers do not commit together, each
/// step has the trainer that it is of.
boost::json::object steps_json(const trace::recording& of, const analysis::step_windows& all, std::size_t last);

/// How long 19 of 20 steps take at most; 0 if none is recorded.
trace::nanoseconds slow_step(const analysis::step_windows& all);

/// The window of `step`, of that trainer if one is named; null if there is none.
const analysis::step_window* find_window(const trace::recording& of, const analysis::step_windows& all,
                                         std::uint64_t step, std::string_view trainer);

/// What each actor did during a step: a row each with bars, at most `bars_most` in all; short ones are left out first.
boost::json::object waterfall_json(const trace::recording& of, const analysis::step_window& step,
                                   std::size_t bars_most = 4000);

}  // namespace troupe::page
