// What each side says in the handshake (see connect.hpp), and what it makes of the other's words: without sockets,
// clocks or TLS, so that it can be tried with any bytes.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "links/connect.hpp"
#include "links/credentials.hpp"
#include "links/hello.hpp"

namespace troupe::links {

constexpr std::size_t prologue_bytes = 6 + 2 + std::tuple_size_v<nonce>;

/// What to do next: first to send, then to stop with an outcome or to read.
struct handshake_step {
  std::vector<std::byte> send;
  /// The handshake is over: what the other side said of itself, or the fault. No text names the other side.
  std::optional<result<hello>> outcome;
  /// How many bytes to read otherwise; never more than a hello's.
  std::size_t want = 0;
};

class handshake_role {
 public:
  virtual ~handshake_role() = default;

  /// `over` is what the words go through.
  virtual handshake_step begin(const channel& over) = 0;

  /// Judges the bytes that were wanted.
  virtual handshake_step feed(std::span<const std::byte> bytes) = 0;

  /// Judges the first of the bytes that are wanted, when the rest has not come yet: who speaks something else may
  /// never send as many.
  virtual std::optional<fault> glance(std::span<const std::byte> first) const = 0;
};

std::unique_ptr<handshake_role> connector_role(const std::string& token, const hello& mine);

/// `judge` is asked once the other side has proved the token: about what it says of itself, and its certificate's
/// fingerprint, if it has shown one.
using hello_authorizer = std::function<hello_reply(const hello& theirs, const std::string& certificate)>;
std::unique_ptr<handshake_role> acceptor_role(const std::string& token, hello_authorizer judge);

/// The other side does not prove that it knows the token.
fault other_token_fault(const channel& over);

/// What is wrong with `first`, the first bytes of a peer: null if they may begin a handshake of ours.
std::optional<fault> check_prologue(std::span<const std::byte> first);

/// `text` on one line, harmless to a terminal, and of bounded length.
std::string shown(std::span<const std::byte> text);

}  // namespace troupe::links
