// Where the loops of a trainer function are, so that a resumed run can enter them there. Loops are told apart by their
// depth and by how many loops of the same iteration came before at that depth.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// Belongs to a trainer.
class loop_places {
 public:
  /// Loops begin where `place` returned this.
  void resume(std::vector<std::uint64_t> saved) { saved_ = std::move(saved); }

  /// A loop begins within the innermost open one. Returns the number of its iterations that the saved run has done;
  /// `done_all`: all of them.
  static constexpr std::uint64_t done_all = UINT64_MAX;
  /// `iterations`: of the loop, if that is known; a resumed run in which an outermost loop has more does those.
  std::uint64_t open(std::optional<std::uint64_t> iterations = std::nullopt);
  /// The innermost loop's first iteration, of those that are left, begins.
  void enter();
  /// The innermost loop's iteration has ended.
  void advance();
  /// The innermost loop has ended.
  void close();
  /// An exception has left the innermost loop.
  void leave();

  /// Whether no loop has begun.
  bool none() const { return open_.empty() && next_ == 0; }
  /// Marks that the innermost loop's iteration has taken its optimizer step. Returns false if it had before.
  bool mark_step();

  /// Whether the innermost loop is in an iteration that has not taken its optimizer step, and has had no loop; or was
  /// there when an exception left it.
  bool is_before_step() const {
    return left_before_step_ || (!open_.empty() && !open_.back().has_stepped && next_ == 0);
  }

  /// Where the loops are: before the saved place, at it, or beyond.
  std::strong_ordering against_saved() const;
  /// Whether what follows was done before the checkpoint, up to the next optimizer step: the loops have not entered the
  /// iteration behind the saved place.
  bool is_before_saved() const;

  /// The place behind the current iteration of the innermost loop: for each depth a loop's number and its iterations,
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
  std::vector<std::uint64_t> ended_;  ///< the place at the end of the outermost loop that has ended last
};

}  // namespace troupe::runtime
