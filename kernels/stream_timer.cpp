#include "kernels/stream_timer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::kernels {

namespace {

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void stream_timer::start(stream& of) {
  std::unique_ptr<time_mark> first = of.make_time_mark();
  if (!first) return;
  first->record();
  of.synchronize();
  last_time_ = now_ns();
  last_ = std::move(first);
  stream_ = &of;
}

stream_timer::placed_mark stream_timer::place_mark() {
  if (spares_.empty()) spares_.push_back(stream_->make_time_mark());
  const std::int64_t placed = now_ns();
  spares_.back()->record();
  placed_mark made{std::move(spares_.back()), placed};
  spares_.pop_back();
  return made;
}

void stream_timer::begin(std::uint16_t what) {
  if (!is_on()) return;
  open_ = {};
  open_.begin = place_mark();
  open_.what = {what, step_, 0, 0};
}

void stream_timer::end() noexcept {
  if (!open_.begin.at) return;
  open_span done = std::exchange(open_, {});
  try {
    done.end = place_mark();
    ended_.push_back(std::move(done));
  } catch (const std::exception&) {
    // The span is lost.
  }
}

/// Returns the time of the next mark in the stream's order, which is over.
std::int64_t stream_timer::time_of(placed_mark& mark) {
  const std::int64_t seen = now_ns();
  const std::int64_t earliest = std::min(std::max(mark.placed, last_time_), seen);
  last_time_ = std::clamp(last_time_ + mark.at->ns_since(*last_), earliest, seen);
  spares_.push_back(std::exchange(last_, std::move(mark.at)));
  return last_time_;
}

std::span<const stream_timer::timed_span> stream_timer::collect() {
  over_.clear();
  auto next = ended_.begin();
  try {
    for (; next != ended_.end() && next->end.at->is_over(); ++next) {
      next->what.begin = time_of(next->begin);
      next->what.end = time_of(next->end);
      over_.push_back(next->what);
    }
  } catch (const device_error&) {
    ended_.clear();  // the times of some may be incomplete
    throw;
  }
  ended_.erase(ended_.begin(), next);
  return over_;
}

}  // namespace troupe::kernels
