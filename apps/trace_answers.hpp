// The answers of `troupe trace`: one function for each analysis.

#pragma once

#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "base/result.hpp"

namespace troupe::apps {

/// The arguments of a call.
struct question {
  const CLI::App& app;
  console& out;
  std::string name;                ///< of the analysis
  std::vector<std::string> words;  ///< positional arguments; FILE or DIR is the last
};

// Each prints its answer and returns the exit code; a fault for wrong input.
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
