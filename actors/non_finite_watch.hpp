// The search for NaN and Inf in what a device computes: it is begun on a stream, and judged when the host has waited
// for that stream anyway. So it costs no further wait, and what it finds may be told one step late, under the step that
// it was in.
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
    std::uint64_t place = 0;  ///< of `count` numbers
    std::size_t count = 0;

    /// For the line that ends a run.
    std::string words() const;
  };

  non_finite_watch() = default;
  /// For at most `open_max` searches at a time that have not been judged, on the device of `on`.
  non_finite_watch(kernels::stream& on, std::size_t open_max) { results_.resize(on, open_max); }

  /// Begins to look through `numbers` [count] of `step`, in the order of `on`. `what` they are, for people.
  void look(kernels::stream& on, std::uint64_t step, const float* numbers, std::size_t count, const char* what);

  /// Has the outcome of what has been looked for until now copied to the host, and nothing beside it: what is looked
  /// for next may be written meanwhile.
  void fetch(kernels::stream& on);

  /// The first that was found, of what has been fetched, in the steps up to `last_step`. The host has waited for the
  /// stream of `fetch`.
  std::optional<finding> judge(std::uint64_t last_step);

 private:
  struct search {
    std::uint64_t step;
    std::size_t count;
    const char* what;
  };
  std::deque<search> open_;
  std::size_t fetched_ = 0;  ///< of the open ones, the first
  std::uint64_t next_ = 0;
  kernels::mirrored_array<kernels::non_finite> results_;  ///< by number, counted round
};

}  // namespace troupe::actors
