#include "cluster/links/frame.hpp"

#include <new>

#include "cluster/links/bytes.hpp"

namespace troupe::links {

namespace {

constexpr std::uint32_t magic = 0x4d524654;  // "TFRM"

enum offsets : std::size_t { magic_at = 0, kind_at = 4, pad8_at = 5, pad16_at = 6, length_at = 8, digest_at = 16 };

}  // namespace

frame_header_image image_of(const frame_header& header) {
  frame_header_image image{};
  put_number(image, magic_at, magic);
  put_number(image, kind_at, header.kind);
  put_number(image, length_at, header.length);
  put_number(image, digest_at, header.digest);
  return image;
}

result<frame_header> parse_frame_header(std::span<const std::byte> bytes, const link_limits& limits) {
  if (const auto found = number_at<std::uint32_t>(bytes, magic_at); found != magic)
    return bad_input("it sent {:#010x} where a frame must begin with {:#010x}", found, magic);
  const frame_header header{number_at<std::uint8_t>(bytes, kind_at), number_at<std::uint64_t>(bytes, length_at),
                            number_at<std::uint64_t>(bytes, digest_at)};
  const unsigned pad = number_at<std::uint8_t>(bytes, pad8_at) | number_at<std::uint16_t>(bytes, pad16_at);
  if (pad != 0)
    return bad_input("it sent a frame of kind {} with flags {:#x} that this release does not know", header.kind, pad);
  if (header.length > limits.frame_bytes_max)
    return bad_input("it announced a frame of {} bytes, the limit is {}", header.length, limits.frame_bytes_max);
  if (header.kind < link::first_user_kind && header.length != 0)
    return bad_input("it sent a {} of {} bytes, it must have none", header.kind == ping_kind ? "ping" : "goodbye",
                     header.length);
  return header;
}

std::uint64_t digest_of(const std::vector<piece>& body) {
  if (body.size() == 1) return troupe::digest_of(body.front().data, body.front().size);
  running_digest all;
  for (const piece& one : body) all.add({one.data, one.size});
  return all.value();
}

std::shared_ptr<std::byte> frame_memory(std::size_t size) {
  constexpr std::align_val_t alignment{64};
  auto* bytes = static_cast<std::byte*>(::operator new(size == 0 ? 1 : size, alignment, std::nothrow));
  if (bytes == nullptr) return nullptr;
  return {bytes, [](std::byte* all) { ::operator delete (all, std::align_val_t{64}); }};
}

}  // namespace troupe::links
