// The phase of a run, as its master sees it.
//
//   unordered ──▶ gathering ──▶ connecting ──▶ making_tables ──▶ training ──▶ collecting
//       │             │ └─────────────┼──────────────▲              │             │
//       └─────────────┴───────────────┴──────────────┴──────────────┴─────────────┴──▶ over
//
//   | from          | to            | when                                                           |
//   |---------------|---------------|----------------------------------------------------------------|
//   | unordered     | gathering     | a run is requested, and its job is valid                       |
//   | gathering     | connecting    | all members have joined, from other processes                  |
//   | gathering     | making_tables | all members have joined, in this process                       |
//   | connecting    | making_tables | every process has its data links                               |
//   | making_tables | training      | the tables have their first weights                            |
//   | training      | collecting    | every trainer has finished                                     |
//   | collecting    | over          | the weights are digested; the result is delivered              |
//   | before        | over          | a stop is requested; a result of no steps is delivered         |
//   | training      |               |                                                                |
//   | any but over  | over          | an error, which is delivered                                   |

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace troupe::actors {

enum class run_phase : std::uint8_t { unordered, gathering, connecting, making_tables, training, collecting, over };

constexpr bool may_follow(run_phase from, run_phase to) {
  using enum run_phase;
  constexpr std::pair<run_phase, run_phase> table[] = {
      {unordered, gathering},      {gathering, connecting},   {gathering, making_tables},
      {connecting, making_tables}, {making_tables, training}, {training, collecting},
  };
  return to == over ? from != over : std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

/// Returns whether the run has begun and not ended: no member can join, and the loss of one ends the run.
constexpr bool is_under_way(run_phase phase) { return phase > run_phase::gathering && phase < run_phase::over; }

/// Describes the phase for users.
constexpr const char* description_of(run_phase phase) {
  constexpr const char* text[] = {"waiting for members",
                                  "waiting for members",
                                  "connecting",
                                  "making tables",
                                  "training",
                                  "collecting weights",
                                  "over"};
  return text[static_cast<std::size_t>(phase)];
}

}  // namespace troupe::actors
