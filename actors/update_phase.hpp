// How far a parameter server is with its next optimizer step.
//
//   gathering ──▶ collected ──▶ gathering          collected ◀──▶ held_up
//
//   | from      | to        | when                                                                                  |
//   |-----------|-----------|---------------------------------------------------------------------------------------|
//   | gathering | collected | all gradients have come, and the modules hold them                                    |
//   | collected | gathering | they are applied, or left out                                                         |
//   | collected | held_up   | they are to be applied, and what they change waits for the memory of a checkpoint     |
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
