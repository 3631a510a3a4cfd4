// Frames on the wire (see link.hpp): header, digest, and memory for the body.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "cluster/links/link.hpp"

namespace troupe::links {

constexpr std::size_t frame_header_bytes = 24;

enum : std::uint8_t { ping_kind = 0, goodbye_kind = 1 };

struct frame_header {
  std::uint8_t kind = 0;
  std::uint64_t length = 0;
  std::uint64_t digest = 0;
};

using frame_header_image = std::array<std::byte, frame_header_bytes>;

frame_header_image image_of(const frame_header& header);

/// Parses and checks a header of `frame_header_bytes`; the error text says what is wrong.
result<frame_header> parse_frame_header(std::span<const std::byte> bytes, const link_limits& limits);

/// Returns `digest_of` a body in pieces.
std::uint64_t digest_of(const std::vector<piece>& body);

/// Allocates uninitialised memory aligned to 64 bytes; null if there is not enough.
std::shared_ptr<std::byte> frame_memory(std::size_t size);

}  // namespace troupe::links
