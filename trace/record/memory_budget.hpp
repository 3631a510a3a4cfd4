// Limits the memory that the files of a recording use: a few KiB of a compressed file can claim gigabytes.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>

#include "base/units.hpp"

namespace troupe::trace {

/// Counts bytes as they are used, where possible before they are allocated. Thread: one.
class memory_budget {
 public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  explicit memory_budget(std::uint64_t limit = unlimited) : limit_(limit) {}

  /// Returns false if the bytes do not fit; after that, every call returns false.
  bool take(std::uint64_t bytes) {
    if (!fits(bytes)) return false;
    taken_ += bytes;
    return true;
  }

  /// As `take`, for bytes that are freed again soon: they are not counted.
  bool fits(std::uint64_t bytes) {
    if (bytes > limit_ - taken_ && wanted_ == 0) wanted_ = bytes;
    return wanted_ == 0;
  }

  std::uint64_t taken() const { return taken_; }
  bool exceeded() const { return wanted_ != 0; }

  /// The error text if it is exceeded: both sizes, and what to try.
  std::string problem() const {
    return fmt::format(
        "takes at least {} of memory, together with the files read before it; the limit is {}, a share of what is "
        "available: read fewer files at once, free memory, or record less (--trace-filter, --trace ring)",
        size_text(taken_ + wanted_), size_text(limit_));
  }

 private:
  std::uint64_t limit_;
  std::uint64_t taken_ = 0;
  std::uint64_t wanted_ = 0;  ///< the first request that did not fit
};

}  // namespace troupe::trace
