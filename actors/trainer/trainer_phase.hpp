// A trainer's phase. In each phase it waits for answers; when all have arrived, it continues.
//
//              ┌──────────────────────────────────────────────────┐
//              ▼                                                  │
//   idle ──▶ looking_up ──▶ reducing ──▶ evaluating ──▶ saving ───┘
//     │                        │            ▲  │          ▲  │
//     │                        ├────────────┘  ├──────────┘  │        every step may skip evaluating and saving
//     │                        ▼               ▼             ▼
//     └──────────────────────▶ done ◀─────────────────────────        any but done ──▶ failed
//
//   | from       | to         | when                                                                    |
//   |------------|------------|-------------------------------------------------------------------------|
//   | idle       | looking_up | the order to train comes, and there is a step to do                     |
//   | idle       | evaluating | it resumes after the last step, whose test rows have not been scored    |
//   | idle       | saving     | it resumes after the last step, which still needs its checkpoint        |
//   | idle       | done       | it resumes after the last step, and nothing is left                     |
//   | looking_up | reducing   | the step's rows have arrived                                            |
//   | reducing   | evaluating | the step is done, and the test rows follow                              |
//   | reducing, evaluating         | saving     | a checkpoint follows                                  |
//   | reducing, evaluating, saving | looking_up | there is a next step                                  |
//   | reducing, evaluating, saving | done       | there is no next step, or a stop is requested         |
//   | any but done, failed         | failed     | the run cannot continue: the actor ends               |

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace troupe::actors {

enum class trainer_phase : std::uint8_t { idle, looking_up, reducing, evaluating, saving, done, failed };

constexpr bool may_follow(trainer_phase from, trainer_phase to) {
  using enum trainer_phase;
  constexpr std::pair<trainer_phase, trainer_phase> table[] = {
      {idle, looking_up},     {idle, evaluating},     {idle, saving},       {idle, done},     {looking_up, reducing},
      {reducing, looking_up}, {reducing, evaluating}, {reducing, saving},   {reducing, done}, {evaluating, looking_up},
      {evaluating, saving},   {evaluating, done},     {saving, looking_up}, {saving, done},
  };
  if (to == failed) return from != done && from != failed;
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

constexpr bool is_over(trainer_phase phase) { return phase >= trainer_phase::done; }

}  // namespace troupe::actors
