// The plan of a program's run: what its servers make, and where it begins.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/run_plan.hpp"

namespace troupe::runtime {

/// Returns the planner of a run of these members and tables, and of what runs beside the trainers (null: nothing).
/// `settings`: what all processes agree on. Errors: the checkpoint to resume from is of another program.
actors::planner plan_program(std::uint32_t servers, std::uint32_t trainers, std::vector<model::setting> settings,
                             std::vector<std::string> free_on_resume, std::vector<actors::planned_table> tables,
                             std::shared_ptr<actors::run_companion> companion);

}  // namespace troupe::runtime
