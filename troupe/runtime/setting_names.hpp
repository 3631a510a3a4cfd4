// The names of a run's settings in errors. For jobs, the fields of `run_options` are options, which the errors of their
// checks name; a program sets them in its source.

#pragma once

#include <span>
#include <string>

namespace troupe::runtime {

/// Replaces option names in an error's text by the fields of `run_options` in the source: `--clip-norm 2` by `clip_norm
/// 2`. A field that is also one of `own`, the program's own options, keeps the option's name.
std::string with_source_names(std::string text, std::span<const std::string> own);

}  // namespace troupe::runtime
