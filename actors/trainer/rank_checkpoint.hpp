// The state of a rank's checkpoints: whether one is due by time, and whether the last one is written.
//
//   none ──▶ writing ──▶ none                  training continues meanwhile
//   none ──▶ awaited ──▶ none                  the rank stands still until it is written
//   writing ──▶ queued ──▶ due ──▶ writing     or awaited: another one follows, for which the rank stands still
//
//   | from      | to               | when                                                       |
//   |-----------|------------------|------------------------------------------------------------|
//   | none, due | writing, awaited | the rank's state is handed over                            |
//   | writing   | queued           | another checkpoint follows                                 |
//   | queued    | due              | the one before is on disk, or has failed                   |
//   | writing, awaited | none      | the checkpoint is on disk, or has failed                   |
//   | awaited   | none             | the master has not accepted the state                      |

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "actors/trainer/checkpoint_timer.hpp"
#include "base/assert.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to one actor.
class rank_checkpoint {
 public:
  using clock = std::chrono::steady_clock;
  enum class phase : std::uint8_t { none, writing, awaited, queued, due };

  /// Reads the rules for checkpoints by time, for which rank 0 votes; see `checkpoint_timer`.
  void plan(const msg::train& order, std::uint32_t rank) {
    is_by_time_ = order.saves && (order.checkpoint_seconds > 0 || order.checkpoint_mtbf > 0);
    if (is_by_time_ && rank == 0) timer_.emplace(order.checkpoint_seconds, order.checkpoint_mtbf);
  }
  /// Training continues after `step`; if that is not 0, it has a checkpoint.
  void start(std::uint64_t step) {
    last_step_ = step;
    if (timer_) timer_->start(checkpoint_timer::now(), step);
  }

  /// Returns whether checkpoints are taken by time.
  bool is_by_time() const { return is_by_time_; }
  /// Returns whether this rank votes for a checkpoint now.
  bool is_due_by_time() const { return timer_ && timer_->is_due(checkpoint_timer::now()); }

  /// Begins a checkpoint, for which the rank stands still since `now`. Returns whether the rank can hand over its
  /// state; if not, it waits until the previous checkpoint is written (`written`).
  bool begin(clock::time_point now) {
    paused_since_ = now;
    if (phase_ == phase::none) return true;
    enter(phase::queued);
    return false;
  }
  bool is_due() const { return phase_ == phase::due; }
  clock::time_point paused_since() const { return paused_since_; }

  /// The state after `step` is handed over. `continues`: training continues while it is written.
  void handed_over(std::uint64_t step, bool continues) {
    if (timer_) timer_->begins(checkpoint_timer::now(), step);
    enter(continues ? phase::writing : phase::awaited);
    keeps_ = continues;
    last_step_ = step;
  }
  /// The step of the last checkpoint.
  std::uint64_t last_step() const { return last_step_; }
  /// Returns whether servers must keep their state before the next optimizer step; true once for each checkpoint that
  /// is written while training continues.
  bool take_keeps() { return std::exchange(keeps_, false); }

  /// The checkpoint is on disk or has failed, and `step` steps are done. Returns the phase that this ends; the rank
  /// stands still unless that is `writing`.
  phase written(std::uint64_t step) {
    if (timer_) timer_->ends(checkpoint_timer::now(), step);
    const phase before = phase_;
    enter(before == phase::queued ? phase::due : phase::none);
    return before;
  }

  /// The master has not accepted the state for which the rank stands still.
  void given_up() {
    TROUPE_ASSERT(phase_ == phase::awaited);
    enter(phase::none);
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
  bool is_by_time_ = false;
  std::uint64_t last_step_ = 0;
  bool keeps_ = false;
  clock::time_point paused_since_;
};

}  // namespace troupe::actors
