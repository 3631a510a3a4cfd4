// How far a run has come, as its master sees it.
//
//   unordered ──▶ gathering ──▶ connecting ──▶ making_tables ──▶ training ──▶ collecting ──▶ over
//                     └──────────────────────────▶
//
//   | from          | to            | when                                                           |
//   |---------------|---------------|----------------------------------------------------------------|
//   | unordered     | gathering     | the run has been asked for, and can be                         |
//   | gathering     | connecting    | all members are here, from other processes                     |
//   | gathering     | making_tables | all members are here, in this process                          |
//   | connecting    | making_tables | every process has its data links                               |
//   | making_tables | training      | the tables have their first weights                            |
//   | training      | collecting    | every trainer has come to the end                              |
//   | collecting    | over          | the weights are digested: the result is delivered              |
//   | gathering     | over          | a wish to stop: a result of no steps is delivered              |
//   | any but over  | over          | an error: it is delivered                                      |

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

/// Whether the run has begun, and has not ended: nobody joins any more, and who goes ends it.
constexpr bool is_under_way(run_phase phase) { return phase > run_phase::gathering && phase < run_phase::over; }

/// The phase in words for people.
constexpr const char* words_of(run_phase phase) {
  constexpr const char* words[] = {"waiting for members",
                                   "waiting for members",
                                   "connecting",
                                   "making tables",
                                   "training",
                                   "collecting weights",
                                   "over"};
  return words[static_cast<std::size_t>(phase)];
}

}  // namespace troupe::actors
