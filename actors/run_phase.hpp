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

#include <cstdint>

namespace troupe::actors {

enum class run_phase : std::uint8_t { unordered, gathering, connecting, making_tables, training, collecting, over };

constexpr bool may_follow(run_phase from, run_phase to) {
  switch (to) {
    case run_phase::unordered:
      return false;
    case run_phase::gathering:
      return from == run_phase::unordered;
    case run_phase::connecting:
      return from == run_phase::gathering;
    case run_phase::making_tables:
      return from == run_phase::gathering || from == run_phase::connecting;
    case run_phase::training:
      return from == run_phase::making_tables;
    case run_phase::collecting:
      return from == run_phase::training;
    case run_phase::over:
      return from != run_phase::over;
  }
  return false;
}

/// Whether the run has begun, and has not ended: nobody joins any more, and who goes ends it.
constexpr bool is_under_way(run_phase phase) { return phase > run_phase::gathering && phase < run_phase::over; }

/// As users are told.
constexpr const char* words_of(run_phase phase) {
  switch (phase) {
    case run_phase::unordered:
    case run_phase::gathering:
      return "waiting for members";
    case run_phase::connecting:
      return "connecting";
    case run_phase::making_tables:
      return "making tables";
    case run_phase::training:
      return "training";
    case run_phase::collecting:
      return "collecting weights";
    case run_phase::over:
      return "over";
  }
  return "";
}

}  // namespace troupe::actors
