// Parses frames from a stream of bytes.
//
// Small frames are read many at once into a buffer, and then copied. A large frame is read directly into its own
// memory, and its digest is computed in parts while their bytes are in the cache.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "cluster/links/frame.hpp"
#include "cluster/links/link.hpp"

namespace troupe::links {

class frame_reader {
 public:
  explicit frame_reader(const link_limits& limits);

  /// Returns the memory for the next bytes; not empty if `next` has returned null.
  std::span<std::byte> space();

  /// Call it after `count` bytes have been written there.
  void commit(std::size_t count);

  /// Returns the next complete frame, null if it needs more bytes, or a fault, after which nothing can be read.
  result<std::optional<received_frame>> next();

 private:
  std::size_t buffered() const { return end_ - begin_; }
  bool enough_for_whole(std::uint64_t length) const;
  std::optional<std::string> begin_large(const frame_header& header);
  result<std::optional<received_frame>> finish(const frame_header& header, std::shared_ptr<std::byte> memory,
                                               std::uint64_t digest);

  link_limits limits_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  // start of the unparsed bytes
  std::size_t end_ = 0;

  // A partly read frame that is too large for the buffer.
  std::shared_ptr<std::byte> large_;
  frame_header large_header_;
  std::size_t large_filled_ = 0;
  running_digest large_digest_;
};

}  // namespace troupe::links
