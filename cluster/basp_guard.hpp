// Knows how long each message of CAF's network protocol (BASP) is before CAF does, which allocates what a header says,
// up to 4 GiB, and has no limit of its own.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe::cluster {

/// Follows the bytes of one direction of a connection, from its beginning: headers, each with a payload of the length
/// that it says. Belongs to one thread.
class basp_guard {
 public:
  explicit basp_guard(std::uint64_t payload_bytes_max) : payload_bytes_max_(payload_bytes_max) {}

  /// Takes the next bytes. Returns the length of a payload over the limit, if their headers announce one: then these
  /// bytes must not reach CAF, and the guard must not be used any more.
  std::optional<std::uint64_t> excess(std::span<const std::byte> bytes);

  std::uint64_t payload_bytes_max() const { return payload_bytes_max_; }

 private:
  static constexpr std::size_t header_bytes = 32;

  const std::uint64_t payload_bytes_max_;
  std::array<std::byte, header_bytes> header_{};
  std::size_t header_filled_ = 0;
  std::uint64_t payload_left_ = 0;
};

}  // namespace troupe::cluster
