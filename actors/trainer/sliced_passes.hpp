// The passes of a slice that tensor parallelism cuts (model/tensor_parallel.hpp): they wait midway for the shares of
// the stage's other slices, while their actor handles other messages.
//
//   resting ──▶ running ──▶ resting
//                 │ ▲
//                 ▼ │
//               waiting
//
//   | from    | to      | when                                                        |
//   |---------|---------|-------------------------------------------------------------|
//   | resting | running | `run`                                                       |
//   | running | waiting | a sum lacks the share of another slice                      |
//   | waiting | running | the last share has come                                     |
//   | running | resting | the work has ended                                          |

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "base/fiber.hpp"
#include "model/tensor_parallel.hpp"
#include "nn/slice_sums.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to one actor.
class sliced_passes final : public nn::slice_sums {
 public:
  /// `first_rank`: the rank of the trainer with the stage's first slice. `send` sends this slice's share of a sum to
  /// the other slices. Requires: `trace` outlives this object.
  sliced_passes(const model::slice_place& at, std::uint32_t first_rank, actor_trace& trace,
                std::function<void(std::uint64_t number, const msg::tensor& share)> send)
      : at_(at), first_rank_(first_rank), trace_(trace), send_(std::move(send)), shares_(at.slices) {}

  /// Runs work of a step, whose passes may sum, until it ends or waits. Requires: no work waits.
  void run(std::uint64_t step, std::function<void()> work);
  bool is_waiting() const { return work_ != nullptr; }
  /// Adds a share of another slice, and resumes the work if it was the last one. Fails on an unexpected share.
  caf::error take(msg::partial_sum&& share);

  /// How long work has waited, in seconds.
  double waited() const { return waited_; }
  /// Adds the slices whose shares the work waits for. Requires: the work waits.
  void report_missing(std::uint64_t step, msg::actor_status& now) const;

  float* share(std::size_t rows, std::size_t cols) override;
  void sum(float* to) override;

 private:
  bool is_complete() const;
  void resume();

  const model::slice_place at_;
  const std::uint32_t first_rank_;
  actor_trace& trace_;
  const std::function<void(std::uint64_t number, const msg::tensor& share)> send_;
  std::uint64_t step_ = 0;
  std::uint64_t number_ = 0;  ///< of the current or next sum
  msg::tensor_buffer mine_;
  std::vector<std::deque<msg::tensor>> shares_;  ///< by slice: shares of that sum and of later ones
  double waited_ = 0;
  std::unique_ptr<fiber> work_;  ///< null: it rests. Destroyed first: it may be within a sum
};

}  // namespace troupe::actors
