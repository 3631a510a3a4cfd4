// A link: an authenticated connection to another process that carries frames both ways and notices when the other side
// is gone.
//
// A frame on the wire is a header of 24 bytes, little-endian, and a body:
//   0   u32  magic 0x4d524654 ("TFRM")
//   4   u8   kind: 0 ping, 1 goodbye (the other side ends on purpose), 2 and up: the user's
//   5   u8   0
//   6   u16  0
//   8   u64  length of the body in bytes; ping and goodbye have none
//   16  u64  digest of the body (XXH3, 64 bits); 0 where the sender saw no need for one
// A length beyond the limit ends the link before anything is allocated.
//
// Every side sends a ping when it has sent nothing for a fifth of `dead_after`, or for 80 ms if that is less, so that
// the two may differ in their timeout. It takes the other for dead when no byte has come for four fifths of
// `dead_after`: so a large frame that arrives slowly is a sign of life, and the death is known within `dead_after`.

#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "links/endpoint.hpp"
#include "links/hello.hpp"

namespace troupe::links {

/// A part of a frame's body that is to be sent: bytes that stay as they are while `owner` lives.
struct piece {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

/// A frame that has come. The memory begins at an address that is a multiple of 64.
struct received_frame {
  std::uint8_t kind = 0;
  std::shared_ptr<const std::byte> memory;
  std::size_t size = 0;
};

/// Which frames are sent with a digest of their body. If one that comes has it, it is checked, unless `never`.
enum class digest_use {
  where_needed,  ///< not over loopback, nor with TLS: nothing could poison the bytes there, as far as this side sees
  always,
  never
};

struct link_limits {
  std::uint64_t frame_bytes_max = std::uint64_t{1} << 30;
  std::chrono::milliseconds dead_after{5000};
  digest_use digests = digest_use::where_needed;
};

/// Keeps itself alive from `start` until it has ended, and may be held longer than its io_context.
class link {
 public:
  static constexpr std::uint8_t first_user_kind = 2;

  struct callbacks {
    /// Called on the link's thread for each frame, in the order in which they were sent.
    std::function<void(received_frame&&)> on_frame;
    /// Called once on the link's thread, and nothing after it: code `lost` and why, or null if the other side said
    /// goodbye. Neither is called after `close`, but one that is under way while another thread closes may finish.
    std::function<void(const fault* why)> on_end;
  };

  virtual ~link() = default;

  /// Begins to read. Call once, from any thread.
  virtual void start(callbacks what) = 0;

  /// Sends a frame; from any thread, never blocks. What the socket does not take at once is queued, and sent in the
  /// order of the calls. With `more_follows` it may wait for the next call, or for `flush`: one system call for both.
  /// Without effect when the link has ended. A frame over `frame_bytes_max` ends the link instead.
  virtual void send(std::uint8_t kind, std::vector<piece> body, bool more_follows = false) = 0;

  /// Sends what waits.
  virtual void flush() = 0;

  /// Stops to read, and goes on when it is called with false: for whoever cannot use frames as fast as they come. Those
  /// that have come already may still be handed over. The other side is not taken for dead meanwhile. On the link's
  /// thread only, also within `on_frame`.
  virtual void pause_reading(bool pause) = 0;

  /// Says goodbye when all that was sent is on its way, and ends the link, at the latest after `dead_after`. From any
  /// thread; for what is queued the io_context must run on.
  virtual void close() = 0;

  /// Bytes that the socket has not taken yet. From any thread.
  virtual std::uint64_t queued_bytes() const = 0;

  /// Who is at the other end, as it said of itself.
  virtual const hello& peer() const = 0;

  /// The fingerprint of the certificate that it has shown: SHA-256 in hexadecimal. Empty: it has shown none.
  virtual const std::string& peer_certificate() const = 0;

  /// The addresses of the two ends of the connection.
  virtual endpoint local_address() const = 0;
  virtual endpoint remote_address() const = 0;
};

using link_ptr = std::shared_ptr<link>;

}  // namespace troupe::links
