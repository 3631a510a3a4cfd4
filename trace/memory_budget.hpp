// How much memory the files of a recording may take: a few KiB of a compressed file can claim gigabytes.

#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace troupe::trace {

/// Counts bytes as they are taken, before they are allocated if possible. For one thread.
class memory_budget {
 public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  explicit memory_budget(std::uint64_t limit = unlimited) : limit_(limit) {}

  /// False: they do not fit, as from then on nothing does.
  bool take(std::uint64_t bytes) {
    if (!fits(bytes)) return false;
    taken_ += bytes;
    return true;
  }

  /// The same for bytes that are given back soon.
  bool fits(std::uint64_t bytes) {
    if (bytes > limit_ - taken_ && wanted_ == 0) wanted_ = bytes;
    return wanted_ == 0;
  }

  std::uint64_t taken() const { return taken_; }
  bool exceeded() const { return wanted_ != 0; }

  /// What there is to say if it is exceeded: both sizes, and what to try.
  std::string problem() const;

 private:
  std::uint64_t limit_;
  std::uint64_t taken_ = 0;
  std::uint64_t wanted_ = 0;  ///< by the first who could not have it
};

}  // namespace troupe::trace
