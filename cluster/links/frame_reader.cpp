#include "cluster/links/frame_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace troupe::links {

namespace {

constexpr std::size_t buffer_bytes = 64 * 1024;

// A large frame is read in parts of this size, and each part is digested while it is in the processor's cache.
constexpr std::size_t large_part_bytes = 512 * 1024;

}  // namespace

frame_reader::frame_reader(const link_limits& limits) : limits_(limits), buffer_(buffer_bytes) {}

std::span<std::byte> frame_reader::space() {
  if (large_) {
    const std::size_t rest = large_header_.length - large_filled_;
    return {large_.get() + large_filled_, std::min(rest, large_part_bytes)};
  }
  return std::span(buffer_).subspan(end_);
}

void frame_reader::commit(std::size_t count) {
  if (!large_) {
    end_ += count;
    return;
  }
  if (limits_.digests == digest_use::always) large_digest_.add({large_.get() + large_filled_, count});
  large_filled_ += count;
}

result<std::optional<received_frame>> frame_reader::next() {
  if (large_) {
    if (large_filled_ < large_header_.length) return std::nullopt;
    return finish(large_header_, std::move(large_), limits_.digests == digest_use::always ? large_digest_.value() : 0);
  }
  const auto unparsed = std::span<const std::byte>(buffer_).subspan(begin_, buffered());
  if (unparsed.size() >= frame_header_bytes) {
    TROUPE_TRY(header, parse_frame_header(unparsed.first(frame_header_bytes), limits_));
    const auto rest = unparsed.subspan(frame_header_bytes);
    if (header.length <= rest.size()) {
      const auto body = rest.first(header.length);
      begin_ += frame_header_bytes + body.size();
      const std::uint64_t digest = limits_.digests == digest_use::always ? troupe::digest_of(body) : 0;
      auto memory = frame_memory(body.size());
      if (memory && !body.empty()) std::memcpy(memory.get(), body.data(), body.size());
      return finish(header, std::move(memory), digest);
    }
    if (header.length > buffer_.size() - frame_header_bytes) {
      if (auto wrong = begin_large(header)) return bad_input(std::move(*wrong));
      return std::nullopt;
    }
  }
  // Moves the beginning of a small frame to the front, so that the rest fits.
  if (begin_ > 0) {
    std::memmove(buffer_.data(), unparsed.data(), unparsed.size());
    end_ = unparsed.size();
    begin_ = 0;
  }
  return std::nullopt;
}

std::optional<std::string> frame_reader::begin_large(const frame_header& header) {
  large_ = frame_memory(header.length);
  if (!large_) return fmt::format("there is no memory for the frame of {} bytes that it sends", header.length);
  large_header_ = header;
  large_filled_ = 0;
  large_digest_.restart();
  const auto here =
      std::span<const std::byte>(buffer_).subspan(begin_ + frame_header_bytes, buffered() - frame_header_bytes);
  std::memcpy(large_.get(), here.data(), here.size());
  begin_ = end_ = 0;
  commit(here.size());
  return std::nullopt;
}

result<std::optional<received_frame>> frame_reader::finish(const frame_header& header,
                                                           std::shared_ptr<std::byte> memory, std::uint64_t digest) {
  large_.reset();
  if (!memory) return bad_input("there is no memory for a frame of {} bytes", header.length);
  // Digest 0: the sender's connection needs none, for example to a forwarder on its own machine.
  if (limits_.digests == digest_use::always && header.digest != 0 && header.length > 0 && digest != header.digest)
    return bad_input("a frame of {} bytes came damaged: its bytes do not match their digest", header.length);
  return received_frame{header.kind, std::move(memory), static_cast<std::size_t>(header.length)};
}

}  // namespace troupe::links
