// Advice in errors: plain English says what to try, with the options for it in brackets, as in `use smaller batches
// (--batch-size)`. A program without such an option leaves out its name.

#pragma once

#include <functional>
#include <string>

namespace troupe {

/// Makes texts name only those options that `is_known` returns true for; null: all. Call it before other threads start.
/// `is_known` gets names such as `--rows`.
void advise_options(std::function<bool(const std::string&)> is_known);

/// Returns a text without the options in brackets that this program lacks. Thread: any.
std::string for_this_program(std::string text);

}  // namespace troupe
