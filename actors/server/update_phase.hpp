// The phase of a parameter server's next optimizer step.
//
//   gathering ──▶ collected ──▶ gathering          collected ◀──▶ held_up
//
//   | from      | to        | when                                                                                  |
//   |-----------|-----------|---------------------------------------------------------------------------------------|
//   | gathering | collected | all gradients have come, and the modules hold them                                    |
//   | collected | gathering | they are applied, or left out                                                         |
//   | collected | held_up   | a checkpoint lacks the memory to keep the state that they would change                |
//   | held_up   | collected | there is more memory                                                                  |

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace troupe::actors {

enum class update_phase : std::uint8_t { gathering, collected, held_up };

constexpr bool may_follow(update_phase from, update_phase to) {
  using enum update_phase;
  constexpr std::pair<update_phase, update_phase> table[] = {
      {gathering, collected}, {collected, gathering}, {collected, held_up}, {held_up, collected}};
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

}  // namespace troupe::actors
