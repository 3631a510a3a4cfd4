// The plan of a program's run: what its servers make, and where it begins.

#pragma once

#include <string>
#include <vector>

#include "actors/run_plan.hpp"

namespace troupe::runtime {

/// Returns the planner of this run, which adds where it begins. Errors: the checkpoint to resume from is of another
/// program. `own`: the program's own options; `free_on_resume`: settings of which that may have had others.
actors::planner plan_program(actors::run_plan plan, std::vector<std::string> own,
                             std::vector<std::string> free_on_resume);

}  // namespace troupe::runtime
