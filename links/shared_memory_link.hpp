// A link between two processes of one host whose large frames go through shared memory; the link below carries all
// others, and word of where the large ones lie, so that all arrive in the order in which they were sent.
//
// Either side may offer its memory when it starts, and fills it once the other side has opened it. Whatever stands in
// the way, no room among it, frames go over the link below.
//
// Kinds of frames on the link below, beside the user's, which must be under 253:
//   253  an offer: u32 process, u32 file, nonce [32] (see shared_memory.hpp)
//   254  the offer is taken; no body
//   255  a frame of which the body lies in the memory: u8 kind, u8 0 [3], u32 slot, u64 offset, u64 size
// All numbers are little-endian.

#pragma once

#include "links/link.hpp"

namespace troupe::links {

/// A frame of at least so many bytes goes through shared memory: below, a socket is as fast.
constexpr std::size_t shared_frame_bytes_min = 8 * 1024;

/// `below` must not have been started; the other side must do the same with its end. `offers`: this side has reason to
/// think that the two are on one host.
link_ptr with_shared_memory(link_ptr below, const link_limits& limits, bool offers);

}  // namespace troupe::links
