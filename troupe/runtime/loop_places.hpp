// The positions of a trainer function's loops, so that a resumed run can enter them there. A loop is identified by its
// depth and by the number of earlier loops of the same iteration at that depth.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Belongs to a trainer.
class loop_places {
 public:
  /// Makes loops begin at this position, which `place` returned.
  void resume(std::vector<std::uint64_t> saved) { saved_ = std::move(saved); }

  /// Begins a loop within the innermost open one. Returns the number of its iterations that the saved run has done;
  /// `done_all`: it has done all iterations.
  static constexpr std::uint64_t done_all = UINT64_MAX;
  /// `iterations`: the loop's, if known; if an outermost loop has more in a resumed run, it does the additional ones.
  std::uint64_t open(std::optional<std::uint64_t> iterations = std::nullopt);
  /// Begins the first remaining iteration of the innermost loop.
  void enter();
  /// Ends an iteration of the innermost loop.
  void advance();
  /// Ends the innermost loop.
  void close();
  /// Leaves the innermost loop by an exception.
  void leave();

  /// Whether no loop has begun yet.
  bool none() const { return open_.empty() && next_ == 0; }
  /// Marks that the innermost loop's iteration has taken its optimizer step. Returns false if it was marked before.
  bool mark_step();

  /// Whether the innermost loop is in an iteration without an optimizer step or an inner loop so far; or was when an
  /// exception left it.
  bool is_before_step() const {
    return left_before_step_ || (!open_.empty() && !open_.back().has_stepped && next_ == 0);
  }

  /// Compares the loops' position with the saved one.
  std::strong_ordering against_saved() const;
  /// Whether the code up to the next optimizer step ran before the checkpoint: the loops have not entered the iteration
  /// after the saved position.
  bool is_before_saved() const;

  /// The position after the current iteration of the innermost loop: for each depth a loop's number and its iterations,
  /// then the number of the next loop.
  std::vector<std::uint64_t> place() const;

 private:
  struct level {
    std::uint64_t number = 0;
    std::uint64_t done = 0;  ///< iterations
    bool is_entered = false;
    bool has_stepped = false;
    std::optional<std::uint64_t> iterations = std::nullopt;
  };

  bool is_on_saved_way() const;
  std::vector<std::uint64_t> here() const;

  std::vector<level> open_;
  bool left_before_step_ = false;
  std::uint64_t next_ = 0;  ///< the number of the next loop within the innermost one
  std::vector<std::uint64_t> saved_;
  std::vector<std::uint64_t> ended_;  ///< the position at the end of the outermost loop that ended last
};

}  // namespace troupe::runtime
