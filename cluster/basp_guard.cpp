#include "cluster/basp_guard.hpp"

#include <algorithm>
#include <caf/io/basp/header.hpp>

namespace troupe::cluster {

std::optional<std::uint64_t> basp_guard::excess(std::span<const std::byte> bytes) {
  static_assert(header_bytes == caf::io::basp::header_size, "this release of CAF has other headers");
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const std::uint64_t skipped = std::min<std::uint64_t>(payload_left_, bytes.size());
      payload_left_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), header_bytes - header_filled_);
    std::ranges::copy(bytes.first(taken), header_.begin() + static_cast<std::ptrdiff_t>(header_filled_));
    bytes = bytes.subspan(taken);
    header_filled_ += taken;
    if (header_filled_ < header_bytes) continue;
    header_filled_ = 0;
    // Operation, two bytes of padding, flags; then the length of the payload, 32 bits, big-endian.
    for (std::size_t at = 4; at < 8; ++at)
      payload_left_ = payload_left_ << 8 | std::to_integer<std::uint64_t>(header_[at]);
    if (payload_left_ > payload_bytes_max_) return payload_left_;
  }
  return std::nullopt;
}

}  // namespace troupe::cluster
