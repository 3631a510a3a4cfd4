// The parts of a path through a step graph, in a form that tests compare.

#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "trace/analysis/step_graph.hpp"

namespace troupe::analysis {

inline std::string text(const trace::recording& run, const path_segment& one) {
  return what_text(run, one.what) + " (" + who_text(run, one.what) + ")" + (one.queued != 0 ? " queue" : "");
}

struct part {
  std::string what;
  trace::nanoseconds time;

  bool operator==(const part&) const = default;
  friend void PrintTo(const part& one, std::ostream* out) { *out << one.what << " " << one.time; }
};

inline std::vector<part> parts(const trace::recording& run, const std::vector<path_segment>& path) {
  std::vector<part> all;
  for (const path_segment& one : path) all.push_back({text(run, one), one.duration()});
  return all;
}

/// Returns the parts of a step's critical path.
inline std::vector<part> critical_parts(const trace::recording& run, const step_window& step) {
  const causality index(run);
  return parts(run, step_graph(index, step).critical_path());
}

}  // namespace troupe::analysis
