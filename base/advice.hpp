// Advice in errors: it says in plain English what to try, and names the options for that in brackets, as in `use
// smaller batches (--batch-size)`. A program that lacks such an option leaves out its name.

#pragma once

#include <functional>
#include <string>

namespace troupe {

/// From now on texts name those options only of which `is_known` returns true; null: all. Call it before there are
/// threads. `is_known` gets names such as `--rows`.
void advise_options(std::function<bool(const std::string&)> is_known);

/// Returns a text without the options in brackets that this program lacks. Thread: any.
std::string for_this_program(std::string text);

}  // namespace troupe
