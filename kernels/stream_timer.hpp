// Times the work of a CUDA device's stream by the device's clock, converted to the host's: like a profiler, from inside
// the program.
//
// A span lies between two marks of the stream. It is read later, when it is over, so that the host never waits for it.
// The time of a mark is the previous mark's plus the device's measurement between the two; the host's clock corrects it
// at every mark, since the device reaches a mark after the host has recorded it and before the host sees it reached. So
// drift between the clocks does not accumulate.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// Does nothing before `start`, and nothing for the processor. Belongs to the stream's user. Thread: the stream's.
/// Functions throw `device_error` unless they say otherwise.
class stream_timer {
 public:
  /// A range of the stream's work; times in ns of std::chrono::steady_clock.
  struct timed_span {
    std::uint16_t what = 0;
    std::uint64_t step = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;

    bool operator==(const timed_span&) const = default;
  };

  /// Begins to time the work of `of`. Waits for it once, to relate its device's clock to the host's.
  void start(stream& of);
  bool is_on() const { return stream_ != nullptr; }
  /// The device's number. Requires: it is on.
  int device() const { return stream_->device().number(); }

  /// Sets the step of the spans that begin from now on.
  void set_step(std::uint64_t step) { step_ = step; }
  std::uint64_t step() const { return step_; }

  /// Begins a span after all earlier calls of the stream; the caller defines the meaning of `what`.
  void begin(std::uint16_t what);
  /// Ends it after all calls since. Without a span, or if the device fails, does nothing: the stream's next call
  /// reports the failure.
  void end() noexcept;

  /// A span of the calls during its lifetime.
  class scope {
   public:
    scope(stream_timer& of, std::uint16_t what) : of_(of) { of.begin(what); }
    ~scope() { of_.end(); }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    stream_timer& of_;
  };

  /// Returns the finished spans that have not been returned before, in order; valid until the next call. Does not wait.
  /// Call it about once a step, best when the host has just waited for the stream. If the device fails, the spans are
  /// lost.
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
  open_span open_;                                  ///< begun, not ended; none without a mark
  std::vector<open_span> ended_;                    ///< enqueued, not collected
  std::vector<timed_span> over_;                    ///< as returned last
  std::vector<std::unique_ptr<time_mark>> spares_;  ///< to be recorded again
  std::unique_ptr<time_mark> last_;                 ///< the last mark whose time is known
  std::int64_t last_time_ = 0;                      ///< its time
};

}  // namespace troupe::kernels
