// Frames as they arrive from a socket: header, frame reader and digest. For any division of the bytes into pieces, the
// same frames must come, each within the limit, and then the same fault.
//
// The first byte of an input says whether frames carry digests, the second how large the pieces are, the third how many
// KiB of zeros follow, so that short inputs reach frames that exceed the reader's buffer.

#include "base/digest.hpp"
#include "cluster/links/frame.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/links/frame_reader.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::frames_target {

constexpr std::uint64_t frame_bytes_max = 160 * 1024;
constexpr std::size_t kib = 1024;

struct outcome {
  std::vector<links::received_frame> frames;
  std::string fault;
};

outcome read_all(std::span<const std::byte> all, const links::link_limits& limits, std::size_t piece) {
  outcome got;
  links::frame_reader reader(limits);
  while (true) {
    while (true) {
      auto frame = reader.next();
      if (!frame) {
        got.fault = frame.error().message;
        return got;
      }
      if (!*frame) break;
      got.frames.push_back(std::move(**frame));
    }
    if (all.empty()) return got;
    const auto space = reader.space();
    must(!space.empty(), "there is no space for the next bytes");
    const std::size_t size = std::min({all.size(), space.size(), piece});
    std::memcpy(space.data(), all.data(), size);
    reader.commit(size);
    all = all.subspan(size);
  }
}

void append_frame(bytes& to, std::uint8_t kind, const bytes& body, std::size_t written) {
  const auto image = links::image_of({kind, body.size(), digest_of(body)});
  to.insert(to.end(), image.begin(), image.end());
  to.insert(to.end(), body.begin(), body.begin() + static_cast<std::ptrdiff_t>(written));
}

bytes settings(bool digests, std::uint8_t piece, std::uint8_t zeros_kib) {
  return {std::byte{digests}, std::byte{piece}, std::byte{zeros_kib}};
}

std::vector<std::pair<std::string, bytes>> seeds() {
  const bytes text(5, std::byte{'x'});
  bytes small = settings(false, 7, 0);
  append_frame(small, links::ping_kind, {}, 0);
  append_frame(small, links::link::first_user_kind, text, text.size());
  append_frame(small, links::goodbye_kind, {}, 0);
  bytes digests = settings(true, 255, 0);
  append_frame(digests, 3, text, text.size());
  append_frame(digests, 4, text, text.size());
  bytes damaged = digests;
  damaged.back() = std::byte{'y'};
  bytes large = settings(true, 255, 98);
  append_frame(large, 2, bytes(100'000), 0);
  bytes at_the_limit = settings(false, 0, 200);
  append_frame(at_the_limit, 2, bytes(frame_bytes_max), 0);
  bytes too_long = settings(false, 0, 0);
  append_frame(too_long, 2, bytes(frame_bytes_max + 1), 0);
  return {{"small", small}, {"digests", digests},           {"damaged", damaged},
          {"large", large}, {"at_the_limit", at_the_limit}, {"too_long", too_long}};
}

void run(std::span<const std::byte> given) {
  input from(given);
  const links::link_limits limits{
      .frame_bytes_max = frame_bytes_max,
      .digests = from.byte() % 2 == 1 ? links::digest_use::always : links::digest_use::never};
  const std::size_t piece_size = std::size_t{from.byte()} + 1;
  const std::size_t zeros = from.byte() * kib;
  bytes all(from.rest().size() + zeros);
  std::ranges::copy(from.rest(), all.begin());
  const auto at_once = read_all(all, limits, all.size());
  for (const links::received_frame& frame : at_once.frames) {
    must(frame.size <= frame_bytes_max, "a frame over the limit");
    must(reinterpret_cast<std::uintptr_t>(frame.memory.get()) % 64 == 0, "a frame's memory is not aligned");
    digest_of(std::span(frame.memory.get(), frame.size));
  }
  const auto cut = read_all(all, limits, piece_size * (zeros > 0 ? 64 : 1));
  must(at_once.fault == cut.fault &&
           std::ranges::equal(at_once.frames, cut.frames,
                              [](const links::received_frame& a, const links::received_frame& b) {
                                return a.kind == b.kind && a.size == b.size &&
                                       std::equal(a.memory.get(), a.memory.get() + a.size, b.memory.get());
                              }),
       "the frames depend on how the bytes are cut");
}

}  // namespace troupe::fuzz::frames_target

TROUPE_FUZZ_TARGET(frames)
