// What the programs of a test have recorded: every test of this folder runs them with full traces, and at its end each
// recorded run is checked against what every run must keep to.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::end_to_end {

/// Variables by which a program records, in a folder of the test that is running; none outside of tests.
std::vector<std::pair<std::string, std::string>> recording_variables();

}  // namespace troupe::end_to_end
