// A link between two processes of one host whose large frames go through shared memory. The link below carries the
// other frames, and the locations of the large ones, so that all arrive in sending order.
//
// Each side may offer its memory at the start, and uses it once the other side has opened it. If anything prevents
// this, or there is no room, frames go over the link below.
//
// Kinds of frames on the link below, besides the user's, which must be under 253:
//   253  an offer: u32 process, u32 file, nonce [32] (see shared_memory.hpp)
//   254  the offer is accepted; no body
//   255  a frame whose body is in the memory: u8 kind, u8 0 [3], u32 slot, u64 offset, u64 size
// All numbers are little-endian.

#pragma once

#include "cluster/links/link.hpp"

namespace troupe::links {

/// Smallest frame that goes through shared memory: for smaller ones a socket is as fast.
constexpr std::size_t shared_frame_bytes_min = 8 * 1024;

/// Memory to offer: a tensor of 64 MiB that two trainers sum fits several times.
constexpr std::size_t shared_memory_bytes = std::size_t{256} << 20;

/// Requires: `below` is not started, and the other side does the same. `offered_bytes`: the memory that this side
/// offers; 0: none, since the other side seems to be on another host.
link_ptr with_shared_memory(link_ptr below, const link_limits& limits, std::size_t offered_bytes);

}  // namespace troupe::links
