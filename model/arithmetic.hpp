// The properties of a machine that determine the last bits of computed numbers.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

/// Returns this machine's arithmetic by name: its instruction set, and BLAS's kernels for it.
const std::vector<setting>& arithmetic_here();

/// Returns a line for the user if this machine continues a run with other arithmetic than `saved`; null if it is the
/// same, or was not saved.
std::optional<std::string> other_arithmetic(std::span<const setting> saved, std::span<const setting> here);

}  // namespace troupe::model
