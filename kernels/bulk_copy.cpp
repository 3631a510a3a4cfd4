#include "kernels/bulk_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>

namespace troupe::kernels {

namespace {

/// A piece of staging memory, and the event after the device's last copy to or from it.
struct piece {
  std::shared_ptr<std::byte> memory;
  std::unique_ptr<event> copied;
};

/// Returns two pieces of the sizes that `bytes` need; null if there is no memory for them: the copy is then slower.
std::optional<std::array<piece, 2>> make_pieces(stream& on, std::size_t bytes) try {
  std::array<piece, 2> made;
  std::size_t left = bytes;
  for (piece& one : made) {
    const std::size_t size = std::min(left, bulk_piece_bytes);
    if (size > 0) one.memory = on.device().allocate_staging(size);
    left -= size;
  }
  return made;
} catch (const device_error& failed) {
  if (failed.why() != device_error::reason::memory) throw;
  return std::nullopt;
}

}  // namespace

void download_bulk(stream& on, const std::byte* from, std::byte* to, std::size_t bytes) {
  auto pieces = make_pieces(on, bytes);
  if (!pieces) {
    on.download(from, to, bytes);
    return on.synchronize();
  }
  const std::size_t count = (bytes + bulk_piece_bytes - 1) / bulk_piece_bytes;
  const auto size_of = [&](std::size_t i) { return std::min(bulk_piece_bytes, bytes - i * bulk_piece_bytes); };
  for (std::size_t i = 0; i <= count; ++i) {
    if (i < count) {
      piece& next = (*pieces)[i % 2];
      on.download(from + i * bulk_piece_bytes, next.memory.get(), size_of(i));
      next.copied = on.record();
    }
    if (i == 0) continue;
    const piece& last = (*pieces)[(i - 1) % 2];
    last.copied->wait();
    std::memcpy(to + (i - 1) * bulk_piece_bytes, last.memory.get(), size_of(i - 1));
  }
}

void upload_bulk(stream& on, const std::byte* from, std::byte* to, std::size_t bytes) {
  auto pieces = make_pieces(on, bytes);
  if (!pieces) {
    on.upload(from, to, bytes);
    return on.synchronize();
  }
  for (std::size_t first = 0, i = 0; first < bytes; first += bulk_piece_bytes, ++i) {
    piece& next = (*pieces)[i % 2];
    if (next.copied) next.copied->wait();
    const std::size_t size = std::min(bulk_piece_bytes, bytes - first);
    std::memcpy(next.memory.get(), from + first, size);
    on.upload(next.memory.get(), to + first, size);
    next.copied = on.record();
  }
  on.synchronize();
}

}  // namespace troupe::kernels
