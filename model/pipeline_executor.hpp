// The micro-batches of a batch at one stage of a pipeline: which of them is passed next, forward or back, what each of
// them lacks, and with which weights it is passed. It computes and sends nothing: the trainer reports arrivals, passes
// the micro-batch that `next` returns, and reports the pass.
//
// The schedule fixes the order, whatever arrives first: a stage passes `in_flight_max` micro-batches forward, or as
// many as there are, then one back and one forward in turn, and the rest back. The gradients are added in the order of
// the micro-batches, as without stages. With 1F1B, three stages and four micro-batches (F forward, B back):
//
//   stage 0   F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
//   stage 1      F0 F1 .  B0 F2 B1 F3 B2 .  B3
//   stage 2         F0 B0 F1 B1 F2 B2 F3 B3
//
// If steps overlap (PipeDream: Narayanan et al., 2019) the same is done with whole batches, each an optimizer step: a
// stream of batches, which ends where all actors must agree. After each B the stage waits for the mean and applies it.
// A batch goes back with the weights of its forward pass, so a stage keeps a version of them for each active batch; its
// gradient is applied to the newest. Stage s of P passes batch b with the weights of b - (P - s - 1) batches.
//
// The executor:                              A micro-batch:
//
//   resting ◀──▶ passing ◀──▶ updating         awaited ──▶ ready ──▶ forward ──▶ away ──▶ returned ──▶ back
//      ▲                         │
//      └─────────────────────────┘
//
//   | from     | to       | when                                                                            |
//   |----------|----------|---------------------------------------------------------------------------------|
//   | resting  | passing  | a batch begins, or a stream of batches                                          |
//   | passing  | resting  | all have been passed back                                                       |
//   | passing  | updating | one has been passed back, and steps overlap                                     |
//   | updating | passing  | the mean of its gradient has been applied                                       |
//   | updating | resting  | the mean has been applied, and it was the last batch of the stream              |
//   | awaited  | ready    | its input has come                                                              |
//   | ready    | forward  | it is the next one, and its forward pass begins                                 |
//   | forward  | away     | its forward pass has ended                                                      |
//   | away     | returned | the gradient of its outputs has come; at once at the last stage, or without samples |
//   | returned | back     | it is the next one, and its backward pass begins, after which it is removed     |

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "model/tensor_parallel.hpp"
#include "nn/pipeline_schedule.hpp"

namespace troupe::model {

/// A stage of a pipeline, and a slice of it.
struct stage_place {
  std::uint32_t stage = 0;
  std::uint32_t stages = 1;
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  slice_place slice = {};

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
  std::uint32_t part() const { return stage * slice.slices + slice.slice; }
  /// The distance to the rank that sends its input: the same slice of the stage before, or the leader.
  std::uint32_t ranks_from_input() const { return is_first() ? slice.slice : slice.slices; }
};

/// The most micro-batches of `count` that are active at a stage: passed forward, and not back.
constexpr std::uint32_t in_flight_max(const stage_place& at, std::uint32_t count) {
  return at.schedule == pipeline_schedule::gpipe ? count : std::min(at.stages - at.stage, count);
}

enum class executor_phase : std::uint8_t { resting, passing, updating };

constexpr bool may_follow(executor_phase from, executor_phase to) {
  return from == executor_phase::resting ? to == executor_phase::passing : from != to;
}

enum class pass_state : std::uint8_t { awaited, ready, forward, away, returned, back };

constexpr bool may_follow(pass_state from, pass_state to) { return static_cast<int>(from) + 1 == static_cast<int>(to); }

/// `Kept`: the trainer's data of an active micro-batch. Belongs to one trainer.
template <class Kept>
class pipeline_executor {
 public:
  static constexpr std::uint32_t endless = UINT32_MAX;

  /// A micro-batch that has not been passed back; if steps overlap, a batch.
  struct entry {
    std::uint64_t step = 0;    ///< its batch's
    std::uint32_t number = 0;  ///< index in the batch
    bool has_samples = true;
    pass_state state = pass_state::awaited;
    double loss = 0;                                 ///< its share of the loss of its batch
    std::uint32_t updates = 0;                       ///< the number of the stream's updates in its weights
    std::shared_ptr<const float> weights = nullptr;  ///< the weights that it is passed with; null: the newest
    Kept kept = {};
  };

  explicit pipeline_executor(const stage_place& at) : at_(at) {}

  const stage_place& place() const { return at_; }

  // -- begin and end ---------------------------------------------------------------------

  /// Begins a batch of `count` micro-batches, each with `kept` as its initial data.
  void begin(std::uint64_t step, std::uint32_t count, const Kept& kept = {}) {
    TROUPE_ASSERT(count > 0 && count < endless);
    restart(count);
    for (std::uint32_t i = 0; i < count; ++i) all_.push_back({.step = step, .number = i, .kept = kept});
  }

  void begin_stream() { restart(endless); }
  /// Adds the next batch of the stream. Fails unless it belongs to a later step.
  result<entry*> add(std::uint64_t step, bool has_samples = true, const Kept& kept = {}) {
    TROUPE_ASSERT(streams_ && !has_ended() && !is_resting());
    if (!all_.empty() && step <= all_.back().step) return bad_input("a batch of step {} out of order", step);
    all_.push_back({.step = step, .has_samples = has_samples, .kept = kept});
    return &all_.back();
  }
  /// Ends the stream: no further batch follows, and all are passed back.
  void end_stream() {
    TROUPE_ASSERT(streams_ && !has_ended() && !is_resting());
    count_ = back_ + static_cast<std::uint32_t>(all_.size());
    if (!is_updating() && is_through()) enter(executor_phase::resting);
  }

  // -- inputs and gradients -----------------------------------------------------------------

  /// Returns the micro-batch whose input is expected. Fails without one.
  result<entry*> awaiting_input(std::uint64_t step, std::uint32_t number) {
    return find(step, number, pass_state::awaited, "the input");
  }
  /// The same for the gradient of its outputs.
  result<entry*> awaiting_gradient(std::uint64_t step, std::uint32_t number) {
    return find(step, number, pass_state::away, "the gradient");
  }
  void take_input(entry& one) { set_state(one, pass_state::ready); }
  void take_gradient(entry& one) { set_state(one, pass_state::returned); }
  /// The mean of the gradient of the last batch passed back has been applied.
  void update() {
    TROUPE_ASSERT(is_updating());
    version_ = nullptr;
    enter(is_through() ? executor_phase::resting : executor_phase::passing);
  }

  // -- passes -------------------------------------------------------------------------------

  /// Returns whether the next pass is forward; else it is back. Requires: some are not passed back.
  bool is_forward_next() const { return forward_ < count_ && in_flight() < in_flight_max(at_, count_); }
  /// The micro-batch to pass next, whether or not it can be; null: its batch has not been added.
  entry* next() { return next_in(*this); }
  const entry* next() const { return next_in(*this); }
  /// Returns whether the next one can be passed now.
  bool can_pass() const {
    const entry* const one = next();
    return phase_ == executor_phase::passing && one != nullptr &&
           one->state == (is_forward_next() ? pass_state::ready : pass_state::returned);
  }
  /// Returns whether the next one is the last of a batch in micro-batches to be passed back.
  bool is_last_back() const { return back_ + 1 == count_; }

  /// Begins the next pass. Requires: `can_pass`.
  entry& begin_pass() {
    TROUPE_ASSERT(can_pass());
    entry& one = *next();
    if (one.state == pass_state::returned) {
      TROUPE_ASSERT(!streams_ || back_ - one.updates < at_.stages - at_.stage);
      set_state(one, pass_state::back);
      return one;
    }
    set_state(one, pass_state::forward);
    one.updates = back_;
    ++forward_;
    TROUPE_ASSERT(in_flight() <= in_flight_max(at_, count_));
    max_in_flight_ = std::max(max_in_flight_, in_flight());
    return one;
  }
  /// Has a batch that is passed forward keep its version of the weights, if they change before it goes back. `copy`
  /// returns a copy of the newest weights; it is called once for each update.
  template <class Copy>
  void keep_weights(entry& one, const Copy& copy) {
    if (!streams_ || in_flight_max(at_, count_) == 1) return;
    if (version_ == nullptr) version_ = copy();
    one.weights = version_;
  }
  /// Ends the pass of `one`. After a backward pass, `one` is removed.
  void end_pass(entry& one) {
    if (one.state == pass_state::forward) {
      set_state(one, pass_state::away);
      if (at_.is_last() || !one.has_samples) take_gradient(one);
      return;
    }
    TROUPE_ASSERT(&one == &all_.front() && one.state == pass_state::back);
    loss_ = one.number == 0 ? one.loss : loss_ + one.loss;
    ++back_;
    all_.pop_front();
    if (streams_ || is_through()) enter(streams_ ? executor_phase::updating : executor_phase::resting);
  }

  // -- progress -------------------------------------------------------------------------------

  bool is_resting() const { return phase_ == executor_phase::resting; }
  bool is_updating() const { return phase_ == executor_phase::updating; }
  /// Returns whether all have been passed back.
  bool is_through() const { return back_ == count_; }
  bool are_all_forward() const { return forward_ == count_; }
  bool has_ended() const { return count_ != endless; }
  /// The number of active micro-batches (passed forward, and not back), and their maximum so far.
  std::uint32_t in_flight() const { return forward_ - back_; }
  std::uint32_t max_in_flight() const { return max_in_flight_; }
  bool streams() const { return streams_; }
  /// The number of the stream's batches that have been passed back, each an update of the weights.
  std::uint32_t updates() const { return back_; }
  /// The loss of the batch's micro-batches that have been passed back; in a stream, of the last batch.
  double loss() const { return loss_; }

  /// Describes what the next micro-batch lacks, with the step. `now`: the trainer's step. Requires: some are not passed
  /// back.
  std::pair<std::string, std::uint64_t> lacks(std::uint64_t now) const {
    const bool is_forward = is_forward_next();
    if (!streams_)
      return {fmt::format("{}micro-batch {}", is_forward ? "" : "the gradient of ", is_forward ? forward_ : back_),
              now};
    if (!is_forward) return {"the gradient of the batch", all_.front().step};
    return {"the batch", all_.empty() ? now : all_.back().step + 1};
  }

 private:
  void enter(executor_phase next) {
    TROUPE_ASSERT(may_follow(phase_, next));
    phase_ = next;
  }
  static void set_state(entry& one, pass_state next) {
    TROUPE_ASSERT(may_follow(one.state, next));
    one.state = next;
  }

  void restart(std::uint32_t count) {
    enter(executor_phase::passing);
    streams_ = count == endless;
    count_ = count;
    forward_ = back_ = 0;
    version_ = nullptr;
  }

  template <class Self>
  static auto next_in(Self& self) {
    const std::uint32_t index = self.is_forward_next() ? self.in_flight() : 0;
    return index < self.all_.size() ? &self.all_[index] : nullptr;
  }

  result<entry*> find(std::uint64_t step, std::uint32_t number, pass_state wanted, const char* what) {
    const auto key = [](const entry& one) { return std::pair(one.step, one.number); };
    const auto found = std::ranges::lower_bound(all_, std::pair(step, number), {}, key);
    if (found == all_.end() || key(*found) != std::pair(step, number) || found->state != wanted)
      return bad_input("{} of micro-batch {} of step {}, which is not under way", what, number, step);
    return &*found;
  }

  stage_place at_;
  executor_phase phase_ = executor_phase::resting;
  bool streams_ = false;
  std::uint32_t count_ = 0;  ///< in the batch, or the stream
  std::uint32_t forward_ = 0;
  std::uint32_t back_ = 0;
  std::uint32_t max_in_flight_ = 0;
  double loss_ = 0;
  std::shared_ptr<const float> version_;  ///< a copy of the newest weights; null: not copied yet
  std::deque<entry> all_;                 ///< in order, beginning with the one to be passed back next
};

}  // namespace troupe::model
