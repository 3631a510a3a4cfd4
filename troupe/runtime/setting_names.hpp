// The names of a run's settings in errors. Jobs have the fields of `run_options` as options, and so do the errors of
// what checks them; a program has them in its source.

#pragma once

#include <span>
#include <string>

namespace troupe::runtime {

/// Returns an error's text in which the fields of `run_options` have their names in the source: `clip_norm 2` in place
/// of `--clip-norm 2`. A field that is also one of `own`, the options of the program's own, keeps the option's name.
std::string with_source_names(std::string text, std::span<const std::string> own);

}  // namespace troupe::runtime
