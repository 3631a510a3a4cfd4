// Captures a step's calls on all streams of a CUDA device as one graph.
//
// The graph has an origin, an extra stream. When a capture begins, every other stream joins it by waiting for an event
// of the origin; when it ends, the origin waits for an event of each. In between they wait for each other's events as
// usual; these waits become the graph's edges. Each step is captured anew, so the arguments of calls may change: the
// executable graph is updated from the new one, or rebuilt if the calls differ.
//
//   origin    ┬─────────────────────────────────────┬  launched: step 1, step 2, ...
//   stream a  └── copy ── record ── ... ────────────┤
//   stream b  └─────────────└ wait ── kernel ───────┘
//
//                 turn_on               begin                     begin: the next step
//       off ────────────────▶ direct ────────────▶ capturing ──────┐
//                               ▲                   │   ▲          │
//                               └────── end ────────┘   └──────────┘
//
//   | from      | to        | when                                                                        |
//   |-----------|-----------|-----------------------------------------------------------------------------|
//   | off       | direct    | `turn_on`                                                                   |
//   | direct    | capturing | `begin`: the origin waits for all that the streams have been given           |
//   | capturing | direct    | `end`: the graph is launched, and all streams wait for it; or a call failed  |
//
// `begin` goes from `capturing` to `direct` and back, while it has the turn.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels::cuda {

/// A step that is or was captured. CUDA cannot say when a captured event is over, so the step's end counts instead.
class captured_step {
 public:
  /// Requires: `device` is current in this thread.
  explicit captured_step(int device);
  ~captured_step();
  captured_step(const captured_step&) = delete;
  captured_step& operator=(const captured_step&) = delete;

  /// Returns whether its graph has not been launched. Thread: any.
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }
  void close() { is_open_.store(false, std::memory_order_release); }
  /// The event after its graph; never recorded if the step was dropped. Requires: it is not open.
  cudaEvent_t end() const { return end_; }

 private:
  const int device_;
  cudaEvent_t end_ = nullptr;
  std::atomic<bool> is_open_ = true;
};

class step_capture final : public step_graphs {
 public:
  enum class state : std::uint8_t { off, direct, capturing };

  static constexpr bool may_follow(state from, state to) {
    using enum state;
    constexpr std::pair<state, state> table[] = {{off, direct}, {direct, capturing}, {capturing, direct}};
    return std::ranges::find(table, std::pair(from, to)) != std::end(table);
  }

  explicit step_capture(int device) : device_(device) {}

  void turn_on() override;
  void begin() override;
  void end() override;
  bool are_captured() const override { return state_.load(std::memory_order_relaxed) == state::capturing; }

  /// Held by a thread while it calls a stream of the device; empty if capture is off. One thread may hold several at a
  /// time.
  using turn = std::unique_lock<std::recursive_mutex>;
  turn take_turn() const { return state_.load(std::memory_order_relaxed) == state::off ? turn() : turn(turns_); }
  /// Returns the step that is being captured; null if none is. Requires: the turn, unless capture is off.
  const std::shared_ptr<captured_step>& open_step() const { return step_; }

  /// Register and remove the device's streams, before their first call and after their last.
  void add(cudaStream_t stream);
  void remove(cudaStream_t stream) noexcept;

 private:
  /// An executable graph, and the step that it was launched for.
  struct executable {
    cudaGraphExec_t graph = nullptr;
    std::shared_ptr<const captured_step> used;
  };

  void enter(state next);
  void capture();
  void launch();
  cudaGraph_t end_capture();
  void make_executable(executable& to, cudaGraph_t graph) const;
  void follow_streams();
  void hold_streams();
  void recover() noexcept;
  void drop() noexcept;

  const int device_;
  mutable std::recursive_mutex turns_;
  std::atomic<state> state_ = state::off;
  std::vector<cudaStream_t> streams_;
  cudaStream_t origin_ = nullptr;
  cudaEvent_t joint_ = nullptr;            ///< where streams fork from the origin and join it
  std::shared_ptr<captured_step> step_;    ///< being captured
  std::shared_ptr<captured_step> last_;    ///< launched last
  std::array<executable, 2> executables_;  ///< used alternately, since one may still be running
  std::size_t launches_ = 0;
};

}  // namespace troupe::kernels::cuda
