// How far a rank is with its checkpoints: whether it wants one by time, and whether the last one is written.
//
//   none ──▶ writing ──▶ none                  training goes on meanwhile
//   none ──▶ awaited ──▶ none                  the rank stands still until it is written
//   writing ──▶ queued ──▶ due ──▶ writing     or awaited: another one follows, for which the rank stands still
//
//   | from      | to               | when                                                       |
//   |-----------|------------------|------------------------------------------------------------|
//   | none, due | writing, awaited | the rank's state is handed over                            |
//   | writing   | queued           | another checkpoint is to be taken                          |
//   | queued    | due              | the one before is on disk, or has failed                   |
//   | writing, awaited | none      | the checkpoint is on disk, or has failed                   |

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "actors/checkpoint_timer.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

/// Belongs to one actor.
class rank_checkpoint {
 public:
  using clock = std::chrono::steady_clock;
  enum class phase : std::uint8_t { none, writing, awaited, queued, due };

  /// This rank is the one that wants them by time; see `checkpoint_timer`.
  void take_by_time(double seconds, double mtbf) { timer_.emplace(seconds, mtbf); }
  void start(std::uint64_t step) {
    if (timer_) timer_->start(checkpoint_timer::now(), step);
  }

  /// Decides whether one is wanted after the current step, if it `may` follow.
  void look_at_clock(bool may) { is_wanted_ = timer_ && may && timer_->is_due(checkpoint_timer::now()); }
  bool is_wanted() const { return is_wanted_; }

  /// One is to be taken, for which the rank stands still since `now`. Returns whether it can hand over its state; else
  /// it waits for the checkpoint before (`written`).
  bool begin(clock::time_point now) {
    stands_still_since_ = now;
    if (phase_ == phase::none) return true;
    enter(phase::queued);
    return false;
  }
  bool is_due() const { return phase_ == phase::due; }
  clock::time_point stands_still_since() const { return stands_still_since_; }

  /// The state after `step` is handed over. `goes_on`: training goes on while it is written.
  void handed_over(std::uint64_t step, bool goes_on) {
    if (timer_) timer_->begins(checkpoint_timer::now(), step);
    enter(goes_on ? phase::writing : phase::awaited);
    keeps_ = goes_on;
  }
  /// Whether servers must keep their state before the next optimizer step: once for each checkpoint that is written
  /// while training goes on.
  bool take_keeps() { return std::exchange(keeps_, false); }

  /// It is on disk, or has failed, and `step` steps are done. Returns the phase that this ends; the rank stands still
  /// if that is not `writing`.
  phase written(std::uint64_t step) {
    if (timer_) timer_->ends(checkpoint_timer::now(), step);
    const phase before = phase_;
    enter(before == phase::queued ? phase::due : phase::none);
    return before;
  }

 private:
  static constexpr bool may_follow(phase from, phase to) {
    using enum phase;
    constexpr std::pair<phase, phase> table[] = {{none, writing},   {none, awaited}, {due, writing},  {due, awaited},
                                                 {writing, queued}, {queued, due},   {writing, none}, {awaited, none}};
    return std::ranges::find(table, std::pair(from, to)) != std::end(table);
  }
  void enter(phase next) {
    TROUPE_ASSERT(may_follow(phase_, next));
    phase_ = next;
  }

  std::optional<checkpoint_timer> timer_;
  phase phase_ = phase::none;
  bool is_wanted_ = false;
  bool keeps_ = false;
  clock::time_point stands_still_since_;
};

}  // namespace troupe::actors
