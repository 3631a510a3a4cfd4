// The search for NaN and Inf in what a device computes: it is enqueued on a stream, and judged when the host has waited
// for that stream anyway. So it costs no further wait, and a finding may be reported one step late, but names its own
// step.
//
//   look ──▶ open ──fetch──▶ fetched ──(the host waits for the stream)──▶ judge

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "kernels/device_array.hpp"

namespace troupe::actors {

/// "NaN" or "Inf".
const char* kind_of(double not_finite);

/// Not thread-safe. Must outlive the work of its streams.
class non_finite_watch {
 public:
  struct finding {
    std::uint64_t step = 0;
    const char* what = "";
    float number = 0;
    std::uint64_t place = 0;  ///< an index below `count`
    std::size_t count = 0;

    /// The text for the line that ends a run. `advice`: what to try next.
    std::string words(const char* advice = "try a smaller --dense-lr or --sparse-lr") const;
  };

  non_finite_watch() = default;
  /// `open_max`: the most searches that may be unjudged at a time, on the device of `on`.
  non_finite_watch(kernels::stream& on, std::size_t open_max) { results_.resize(on, open_max); }

  /// Enqueues on `on` a search of `numbers` [count] of `step`. `what`: what they are, in words for people.
  void look(kernels::stream& on, std::uint64_t step, const float* numbers, std::size_t count, const char* what);

  /// Enqueues a copy of the results of the searches so far to the host, and of nothing else: a later search may write
  /// its result meanwhile.
  void fetch(kernels::stream& on);

  /// Returns the first fetched finding in the steps up to `last_step`. Requires: the host has waited for the stream of
  /// `fetch`.
  std::optional<finding> judge(std::uint64_t last_step);

 private:
  struct search {
    std::uint64_t step;
    std::size_t count;
    const char* what;
  };
  std::deque<search> open_;
  std::size_t fetched_ = 0;  ///< the first open searches
  std::uint64_t next_ = 0;
  kernels::mirrored_array<kernels::non_finite> results_;  ///< by search number, modulo the size
};

}  // namespace troupe::actors
