// Makes frames of bytes as they come.
//
// Small frames are read many at once into a buffer and get a copy of their own; a large one is read directly into the
// memory that it will keep, with its digest computed on the way while the bytes are warm.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "links/frame.hpp"
#include "links/link.hpp"

namespace troupe::links {

class frame_reader {
 public:
  explicit frame_reader(const link_limits& limits);

  /// Where the next bytes are to be written; never empty while `next` is called until it gives null.
  std::span<std::byte> space();

  /// So many bytes have been written there.
  void commit(std::size_t count);

  /// The next frame that is whole, null if more bytes are needed, or what is wrong: nothing can be read after that.
  result<std::optional<received_frame>> next();

 private:
  std::size_t buffered() const { return end_ - begin_; }
  bool enough_for_whole(std::uint64_t length) const;
  std::optional<std::string> begin_large(const frame_header& header);
  result<std::optional<received_frame>> finish(const frame_header& header, std::shared_ptr<std::byte> memory,
                                               std::uint64_t digest);

  link_limits limits_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  // of what is not parsed yet
  std::size_t end_ = 0;

  // A frame that is too large for the buffer, while it comes.
  std::shared_ptr<std::byte> large_;
  frame_header large_header_;
  std::size_t large_filled_ = 0;
  running_digest large_digest_;
};

}  // namespace troupe::links
