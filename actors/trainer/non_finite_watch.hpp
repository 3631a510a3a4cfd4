// The search for NaN and Inf in a device's results: it is enqueued on a stream, and checked when the host has waited
// for that stream anyway. So it costs no further wait, and a finding may be reported a step or two late, but names its
// own step.
//
//   look ──▶ open ──fetch──▶ fetched ──(the host waits for the stream)──know──▶ known ──check_finite──▶

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

/// What to try when a run of `troupe train` diverges.
constexpr const char* lower_rates = "try a smaller learning rate (--dense-lr, --sparse-lr)";

/// Not thread-safe. Must outlive the work of its streams.
class non_finite_watch {
 public:
  struct finding {
    std::uint64_t step = 0;
    std::string what;
    /// If the numbers belong to the parameters: their first index among these.
    std::optional<std::size_t> first = std::nullopt;
    float number = 0;
    std::uint64_t place = 0;  ///< an index below `count`
    std::size_t count = 0;

    /// The text for the line that ends a run. `advice`: what to try next.
    std::string description(const char* advice = lower_rates) const;
  };

  non_finite_watch() = default;
  /// `open_max`: the most unchecked searches at a time, on the device of `on`. `step_max`: how many are usually fetched
  /// at once; then each `fetch` is one copy.
  non_finite_watch(kernels::stream& on, std::size_t open_max, std::size_t step_max = 1)
      : open_max_(open_max), step_max_(step_max) {
    results_.resize(on, open_max + step_max);
  }

  /// Enqueues on `on` a search of `numbers` [count] of `step`. `what`: their description for users. `first`: as in
  /// `finding`.
  void look(kernels::stream& on, std::uint64_t step, const float* numbers, std::size_t count, const char* what,
            std::optional<std::size_t> first = std::nullopt);

  /// Enqueues a copy of the results that have not been fetched yet to the host, and of nothing else: meanwhile, a later
  /// search may write its result, and the host may read earlier ones. Returns the number of all searches so far. On the
  /// processor, their results are known at once.
  std::uint64_t fetch(kernels::stream& on);

  /// The first `searches` results are known. Requires: the host has waited for the stream after the `fetch` that
  /// returned that number.
  void know(std::uint64_t searches) { known_ = searches; }

  /// Returns the first known finding in the steps up to `last_step`.
  std::optional<finding> check_finite(std::uint64_t last_step);

 private:
  struct search {
    std::uint64_t step;
    std::size_t count;
    const char* what;
    std::optional<std::size_t> first;
    std::size_t slot;  ///< the position of its result
  };
  std::deque<search> open_;  ///< the last searches, not checked yet
  // Counts of searches since the beginning.
  std::uint64_t known_ = 0;
  std::uint64_t fetched_ = 0;
  std::uint64_t next_ = 0;
  std::size_t open_max_ = 0;
  std::size_t step_max_ = 0;
  kernels::mirrored_array<kernels::non_finite> results_;
  std::size_t slot_ = 0;  ///< of the next search
};

}  // namespace troupe::actors
