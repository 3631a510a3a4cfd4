// How links are made: one side listens, the other connects; both prove that they know the run's token before either
// believes anything.
//
// The handshake, after TCP and, unless it is off, TLS (numbers are little-endian):
//   both       "TROUPE" u16 version=2, nonce [32], without waiting for the other: so each can tell what it talks to
//   connector  proof [32] = HMAC(token, "connector", its nonce, the other's, channel)
//   acceptor   u8 1, proof [32] = HMAC(token, "acceptor", its nonce, the other's, channel); or u8 0: wrong token
//   connector  u32 length, hello
//   acceptor   u8 1, u32 length, hello; or u8 0, u32 length, the reason for its refusal in words
// `channel` is 32 bytes exported from TLS (RFC 9266, tls-exporter), zeros without TLS: so that nobody in between can
// end TLS on both sides and pass the proofs on. Nothing longer than a hello is ever read, nor allocated, before it is
// over.

#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "links/credentials.hpp"
#include "links/endpoint.hpp"
#include "links/hello.hpp"
#include "links/link.hpp"

namespace troupe::links {

struct handshake_limits {
  /// For the whole handshake, from the accepted or connected socket to the last byte.
  std::chrono::milliseconds time{5000};
  /// Connections that are in the handshake at once; one more ends the oldest of the address that has most of them.
  std::size_t pending_max = 64;
};

/// What the acceptor answers to a hello: its own, or why it refuses.
using hello_reply = result<hello>;

/// Accepts links. All callbacks come on the thread that runs `io`. Ends with its destruction, after which none comes
/// any more; destroy it on that thread or when that thread has ended, and before `io`.
class listener {
 public:
  struct callbacks {
    /// Judges a peer that has proved the token, with the fingerprint of the certificate that it has shown, if any. One
    /// that is let in may still be lost before it becomes a link: then `on_rejected` follows.
    std::function<hello_reply(const hello& theirs, const endpoint& from, const std::string& certificate)> on_hello;
    /// A link that was greeted; not started.
    std::function<void(link_ptr)> on_link;
    /// A connection that came to nothing, for the log: from where and why. Refusals by `on_hello` among them.
    std::function<void(const endpoint& from, const fault&)> on_rejected;
  };

  /// Listens at `where` (port 0: any free one); where that is a name, at the first of its addresses that this machine
  /// has. Faults: address_in_use, bad_setting.
  static result<std::unique_ptr<listener>> open(boost::asio::io_context& io, const endpoint& where,
                                                const credentials& mine, const link_limits& links,
                                                const handshake_limits& handshakes, callbacks what);

  virtual ~listener() = default;

  /// The address and the port that were found.
  virtual endpoint address() const = 0;
};

/// Connects to `where` and shakes hands, once; gives up after `handshakes.time`. With certificates that of the other
/// side must be good for `where.host`, unless `mine` wants another name, or one certificate. `done` is called once, on
/// the thread that runs `io`, with a link that is not started, or the fault: `unreachable` is worth another try.
void connect(boost::asio::io_context& io, const endpoint& where, const credentials& mine, const hello& about_me,
             const link_limits& links, const handshake_limits& handshakes, std::function<void(result<link_ptr>)> done);

}  // namespace troupe::links
