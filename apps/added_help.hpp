// The section of the help on what a program adds to jobs.

#pragma once

#include <string>

namespace troupe::apps {

/// Returns the names that the program has added, with the options of each: a limit and a default, or that the option
/// must be given. Ends with an empty line; empty: the program has added nothing. Thread: any.
std::string added_help();

}  // namespace troupe::apps
