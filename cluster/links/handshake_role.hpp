// The protocol of the handshake (see connect.hpp) for each side, without sockets, clocks or TLS, so that tests can feed
// it any bytes.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/links/connect.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/hello.hpp"

namespace troupe::links {

constexpr std::size_t prologue_bytes = 6 + 2 + std::tuple_size_v<nonce>;

/// The next actions: send `send`, then either end with `outcome`, or read `want` bytes.
struct handshake_step {
  std::vector<std::byte> send;
  /// The end of the handshake: the other side's hello, or the fault. No text names the other side.
  std::optional<result<hello>> outcome;
  /// Otherwise the number of bytes to read; never more than a hello has.
  std::size_t want = 0;
};

class handshake_role {
 public:
  virtual ~handshake_role() = default;

  /// `over`: the connection's security properties.
  virtual handshake_step begin(const channel& over) = 0;

  /// Handles the bytes that were wanted.
  virtual handshake_step feed(std::span<const std::byte> bytes) = 0;

  /// Checks the first of the wanted bytes before the rest has arrived: a peer of another protocol may never send that
  /// many.
  virtual std::optional<fault> glance(std::span<const std::byte> first) const = 0;
};

std::unique_ptr<handshake_role> connector_role(const std::string& token, const hello& mine);

/// After the other side has proved the token, calls `check_hello` with its hello and its certificate's fingerprint, if
/// any.
using hello_authorizer = std::function<hello_reply(const hello& theirs, const std::string& certificate)>;
std::unique_ptr<handshake_role> acceptor_role(const std::string& token, hello_authorizer check_hello);

/// The fault of a peer that does not prove the token.
fault other_token_fault(const channel& over);

/// Returns what is wrong with the first bytes of a peer; null if they may begin this handshake.
std::optional<fault> check_prologue(std::span<const std::byte> first);

/// Returns `text` on one line, escaped and of bounded length.
std::string shown(std::span<const std::byte> text);

}  // namespace troupe::links
