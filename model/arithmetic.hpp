// What decides the last bits of numbers that a processor computes.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

/// Returns it for this machine, by name: its instruction set, and the kernels that BLAS has for it.
const std::vector<setting>& arithmetic_here();

/// Returns a line for the user if a run that another machine began is to go on with other arithmetic than `saved`; null
/// if it is the same, or if it was not saved.
std::optional<std::string> other_arithmetic(std::span<const setting> saved, std::span<const setting> here);

}  // namespace troupe::model
