// The plan of a program's run: the modules of its servers, and the state that it starts from.

#pragma once

#include <string>
#include <vector>

#include "actors/master/run_plan.hpp"

namespace troupe::runtime {

/// Returns the planner of this run, which adds the state to start from. Fails if the checkpoint to resume from is of
/// another program. `own`: the program's own options; `free_on_resume`: settings whose values may have differed there.
actors::planner plan_program(actors::run_plan plan, std::vector<std::string> own,
                             std::vector<std::string> free_on_resume);

}  // namespace troupe::runtime
