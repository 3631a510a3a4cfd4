// A link: an authenticated connection to another process that carries frames both ways and detects the other side's
// death.
//
// A frame on the wire is a header of 24 bytes, little-endian, and a body:
//   0   u32  magic 0x4d524654 ("TFRM")
//   4   u8   kind: 0 ping, 1 goodbye (the other side closes on purpose), 2 and up: the user's
//   5   u8   0
//   6   u16  0
//   8   u64  length of the body in bytes; ping and goodbye have none
//   16  u64  digest of the body (XXH3, 64 bits); 0: none
// A length beyond the limit ends the link before anything is allocated.
//
// Each side sends a ping when it has sent nothing for a fifth of `dead_after`, the shorter of its own and the other
// side's, which the hello contains (80 ms at most if it does not). It considers the other side dead when no byte has
// arrived for four fifths of `dead_after`: a large frame that arrives slowly is a sign of life, and a death is detected
// within `dead_after`.

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
#include "cluster/links/endpoint.hpp"
#include "cluster/links/hello.hpp"

namespace troupe::links {

/// A part of a frame's body to send. Requires: the bytes do not change while `owner` lives.
struct piece {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
};

/// A received frame. Its memory is aligned to 64 bytes.
struct received_frame {
  std::uint8_t kind = 0;
  std::shared_ptr<const std::byte> memory;
  std::size_t size = 0;
};

/// Which frames are sent with a digest of their body. Digests of received frames are checked, unless `never`.
enum class digest_use {
  where_needed,  ///< not over loopback or with TLS: bytes cannot change on the way there
  always,
  never
};

struct link_limits {
  std::uint64_t frame_bytes_max = std::uint64_t{1} << 30;
  std::chrono::milliseconds dead_after{5000};
  digest_use digests = digest_use::where_needed;
};

/// Keeps itself alive from `start` until it has ended, and may outlive its io_context.
class link {
 public:
  static constexpr std::uint8_t first_user_kind = 2;

  struct callbacks {
    /// Called on the link's thread for each frame, in sending order.
    std::function<void(received_frame&&)> on_frame;
    /// The last callback, on the link's thread: a fault of kind `lost`, or null if the other side sent goodbye. Neither
    /// callback starts after `close`; one that runs while another thread closes may finish.
    std::function<void(const fault* why)> on_end;
  };

  virtual ~link() = default;

  /// Starts to read. Requires: called once. Thread: any.
  virtual void start(callbacks what) = 0;

  /// Sends a frame; does not block. Thread: any. Bytes that the socket does not accept at once are queued and sent in
  /// the order of the calls. With `more_follows` it may wait for the next call or `flush`, to make one system call for
  /// both. No effect after the link has ended. A frame over `frame_bytes_max` ends the link instead.
  virtual void send(std::uint8_t kind, std::vector<piece> body, bool more_follows = false) = 0;

  /// Sends waiting frames.
  virtual void flush() = 0;

  /// Sends what waits for `flush`, or a sign of life if one is due. The link's thread does so itself, unless it is busy
  /// with something else for long. Thread: any.
  virtual void keep_alive() {}

  /// Pauses reading with true, and resumes with false, for a slow receiver. Frames that have been read may still be
  /// delivered. A pause does not count as the other side's silence. Thread: the link's, also within `on_frame`.
  virtual void pause_reading(bool pause) = 0;

  /// Sends all queued frames and goodbye, and ends the link, at the latest after `dead_after`. Thread: any. Requires:
  /// the io_context runs, if frames are queued.
  virtual void close() = 0;

  /// Returns the bytes that the socket has not accepted yet. Thread: any.
  virtual std::uint64_t queued_bytes() const = 0;

  /// Returns the other side's hello.
  virtual const hello& peer() const = 0;

  /// Returns the fingerprint of the other side's certificate: SHA-256 in hexadecimal. Empty: it has none.
  virtual const std::string& peer_certificate() const = 0;

  /// Return the addresses of the connection's two ends.
  virtual endpoint local_address() const = 0;
  virtual endpoint remote_address() const = 0;
};

using link_ptr = std::shared_ptr<link>;

}  // namespace troupe::links
