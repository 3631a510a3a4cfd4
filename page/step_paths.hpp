// Critical paths, as the page draws them.

#pragma once

#include <boost/json/object.hpp>

#include "analysis/critical_path.hpp"

namespace troupe::page {

/// Of one step: `{begin_ns, time_ns, line, chain, parts, actors, halved}`.
boost::json::object path_json(const trace::recording& of, const analysis::step_study& study);

/// What the paths of many steps are made of: `{steps, p50_ns, p95_ns, sum_ns, parts}`.
boost::json::object statistics_json(const trace::recording& of, const analysis::path_statistics& all);

}  // namespace troupe::page
