// Copies large memory that is not pinned, such as whole tables, between a device and the host: through two pieces of
// staging memory in turn, so that the device copies at its full rate while the host copies the previous or next piece.

#pragma once

#include <cstddef>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// The size of a piece.
inline constexpr std::size_t bulk_piece_bytes = std::size_t{32} << 20;

/// Copies `bytes` bytes at `from` on the device of `on` to the host's memory at `to`. Waits for the stream.
void download_bulk(stream& on, const std::byte* from, std::byte* to, std::size_t bytes);

/// Copies `bytes` bytes of the host's memory at `from` to `to` on the device of `on`. Waits for the stream.
void upload_bulk(stream& on, const std::byte* from, std::byte* to, std::size_t bytes);

}  // namespace troupe::kernels
