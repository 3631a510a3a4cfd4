// The ranks' votes in each step: whether the run ends with it, and whether a checkpoint follows. The votes of a rank
// travel with its shares of the step's buckets (`msg::reduce`), and those of all ranks with the means (`msg::reduced`),
// so that every rank counts the same votes in the same step.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace troupe::actors {

/// Belongs to one actor.
class step_votes {
 public:
  struct vote {
    bool stop = false;
    bool save = false;
  };

  /// Makes this rank vote to stop.
  void vote_to_stop() { own_.stop = true; }
  /// Sets this rank's vote for a checkpoint after the current step.
  void vote_to_save(bool wanted) { own_.save = wanted; }
  const vote& own() const { return own_; }

  /// Counts the votes of all ranks: one is enough.
  void count(const vote& all) {
    agreed_.stop = agreed_.stop || all.stop;
    agreed_.save = agreed_.save || all.save;
  }
  /// The same for `step`, if steps overlap: those up to `begun` have begun, and are finished before the run ends.
  void count(const vote& all, std::uint64_t step, std::uint64_t begun) {
    if (all.stop && !last_) last_ = begun;
    count({.stop = last_ == step, .save = all.save});
  }
  /// The step with which the run ends, if steps overlap; null: no rank has voted to stop.
  const std::optional<std::uint64_t>& last() const { return last_; }
  /// Returns whether the run ends with the current step.
  bool stops() const { return agreed_.stop; }
  /// Returns whether a checkpoint follows the current step, if one can.
  bool saves() const { return agreed_.save; }
  /// Returns the same as `saves`, and clears it.
  bool take_save() { return std::exchange(agreed_.save, false); }

 private:
  vote own_;
  vote agreed_;
  std::optional<std::uint64_t> last_;
};

}  // namespace troupe::actors
