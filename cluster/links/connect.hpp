// Establishes links: one side listens, the other connects; both prove that they know the run's token before anything
// else is accepted.
//
// The handshake, after TCP and, unless it is off, TLS (numbers are little-endian):
//   both       "TROUPE" u16 version=4, nonce [32], without waiting, so that each side recognises the other's protocol
//   connector  proof [32] = HMAC(token, "connector", its nonce, the other's, channel)
//   acceptor   u8 1, proof [32] = HMAC(token, "acceptor", its nonce, the other's, channel); or u8 0: wrong token
//   connector  u32 length, hello
//   acceptor   u8 1, u32 length, hello; or u8 0, u32 length, the reason for its refusal as text
// `channel` is 32 bytes exported from TLS (RFC 9266, tls-exporter), zeros without TLS. It binds the proofs to the TLS
// connection, so that a man in the middle cannot forward them. Until the handshake is over nothing longer than a hello
// is read or allocated.

#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/socket_address.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/endpoint.hpp"
#include "cluster/links/hello.hpp"
#include "cluster/links/link.hpp"

namespace troupe::links {

struct handshake_limits {
  /// Limit for the whole handshake, from the accepted or connected socket to the last byte.
  std::chrono::milliseconds time{5000};
  /// Limit of concurrent handshakes; one more closes the oldest handshake of the address with the most of them.
  std::size_t pending_max = 64;
};

/// The acceptor's answer to a hello: its own hello, or the reason for a refusal.
using hello_reply = result<hello>;

/// Listens at all addresses of `where` (port 0: any free one, the same at all of them). Faults name the address:
/// address_in_use, input.
result<listening_sockets> listen_at(const endpoint& where);

/// Accepts links until it is destroyed. Calls all callbacks on the thread that runs `io`, and none after the
/// destructor.
/// Requires: it is destroyed on that thread or after that thread has ended, and before `io`.
class listener {
 public:
  struct callbacks {
    /// Accepts or refuses a peer that has proved the token. The text is the fingerprint of its certificate, if any. An
    /// accepted peer may still be lost before `on_link`: then `on_rejected` follows.
    std::function<hello_reply(const hello& theirs, const endpoint& from, const std::string& certificate)> on_hello;
    /// A new link; not started.
    std::function<void(link_ptr)> on_link;
    /// A connection that failed, for the log: its address and the reason. Includes refusals by `on_hello`.
    std::function<void(const endpoint& from, const fault&)> on_rejected;
  };

  /// Listens as `listen_at` does.
  static result<std::unique_ptr<listener>> open(boost::asio::io_context& io, const endpoint& where,
                                                const credentials& mine, const link_limits& links,
                                                const handshake_limits& handshakes, const callbacks& what);

  /// The same with the sockets of `listen_at`, which it duplicates.
  static result<std::unique_ptr<listener>> adopt(boost::asio::io_context& io, const listening_sockets& at,
                                                 const credentials& mine, const link_limits& links,
                                                 const handshake_limits& handshakes, const callbacks& what);

  virtual ~listener() = default;

  /// Returns the addresses, all with one port.
  virtual std::vector<endpoint> addresses() const = 0;

  /// Returns the first of these addresses.
  endpoint address() const { return addresses().front(); }
};

/// Connects to `where`, at the first of its addresses that answers, and performs the handshake, without retries; fails
/// after `handshakes.time`. With certificates, the other side's must be valid for `where.host`, unless `mine` names
/// another host or a certificate. Calls `done` once, on the thread that runs `io`, with a link that is not started, or
/// the fault; after `unreachable` a retry may succeed.
void connect(boost::asio::io_context& io, const endpoint& where, const credentials& mine, const hello& about_me,
             const link_limits& links, const handshake_limits& handshakes, std::function<void(result<link_ptr>)> done);

}  // namespace troupe::links
