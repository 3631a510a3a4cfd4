// The answers of `troupe trace`: one function for each analysis.

#pragma once

#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "base/result.hpp"

namespace troupe::apps {

/// What was asked.
struct question {
  const CLI::App& app;
  console& out;
  std::string name;                ///< of the analysis
  std::vector<std::string> words;  ///< what follows it: FILE or DIR, and what the analysis wants before that
};

// Each prints its answer and returns the exit code, or a fault for wrong input.
result<int> summary(const question& asked);
result<int> critical_path(const question& asked);
result<int> why(const question& asked);
result<int> cone(const question& asked);
result<int> blocked(const question& asked);
result<int> check(const question& asked);
result<int> timeline(const question& asked);
result<int> diff(const question& asked);
result<int> tail(const question& asked);
result<int> blame(const question& asked);
result<int> replay_recording(const question& asked);
result<int> serve_recording(const question& asked);

}  // namespace troupe::apps
