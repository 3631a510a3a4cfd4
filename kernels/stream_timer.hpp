// When a stream of a CUDA device does what, by the device's clock, told in the host's: what a profiler would show, from
// inside the program.
//
// A span lies between two marks of the stream. It is asked for later, when it is over, so that the host never waits for
// it. The times of a stream's marks follow each other by what the device measures between them; the host's clock
// corrects them at every mark, which is not reached before the host has put it there, nor after the host sees that it
// has been. So clocks that run apart do not add up.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Does nothing before `start`, and nothing for the processor. Owned by whoever uses the stream. Thread: the stream's.
/// Functions throw `device_error` unless they say otherwise.
class stream_timer {
 public:
  /// A stretch of the stream's work; times in ns of std::chrono::steady_clock.
  struct timed_span {
    std::uint16_t what = 0;
    std::uint64_t step = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;

    bool operator==(const timed_span&) const = default;
  };

  /// Begins to time what `of` does. Waits for it, once: that says what its device's time is on the host's clock.
  void start(stream& of);
  bool is_on() const { return stream_ != nullptr; }
  /// The device's number. Requires: it is on.
  int device() const { return stream_->device().number(); }

  /// The spans that begin from now on are of this step.
  void set_step(std::uint64_t step) { step_ = step; }
  std::uint64_t step() const { return step_; }

  /// Begins a span behind all earlier calls of the stream; its meaning, `what`, is the caller's.
  void begin(std::uint16_t what);
  /// Ends it behind all that was called since. Without one, or if the device fails, does nothing: the next call of the
  /// stream tells the failure.
  void end() noexcept;

  /// A span of what is called during its lifetime.
  class scope {
   public:
    scope(stream_timer& of, std::uint16_t what) : of_(of) { of.begin(what); }
    ~scope() { of_.end(); }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    stream_timer& of_;
  };

  /// Returns the spans that are over and have not been returned before, in order; they stay until the next call. Does
  /// not wait. Call it about once a step, best when the host has just waited for the stream. If the device fails, the
  /// spans are lost.
  std::span<const timed_span> collect();

 private:
  struct placed_mark {
    std::unique_ptr<time_mark> at;
    std::int64_t placed = 0;  ///< when it was recorded; the device reaches it later
  };
  struct open_span {
    timed_span what;
    placed_mark begin;
    placed_mark end;
  };

  placed_mark place_mark();
  std::int64_t time_of(placed_mark& mark);

  stream* stream_ = nullptr;
  std::uint64_t step_ = 0;
  open_span open_;                                  ///< begun, not ended; without a mark: none
  std::vector<open_span> ended_;                    ///< enqueued, not collected
  std::vector<timed_span> over_;                    ///< as last returned
  std::vector<std::unique_ptr<time_mark>> spares_;  ///< to be recorded again
  std::unique_ptr<time_mark> last_;                 ///< the last one whose time is known
  std::int64_t last_time_ = 0;                      ///< its time
};

}  // namespace troupe::kernels
