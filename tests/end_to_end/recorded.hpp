// The recordings of a test's programs: every test of this folder runs them with full traces, and at its end checks each
// recorded run against the rules that every run must obey.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::end_to_end {

/// Variables that make a program record into a folder of the current test; empty outside of tests.
std::vector<std::pair<std::string, std::string>> recording_variables();

}  // namespace troupe::end_to_end
