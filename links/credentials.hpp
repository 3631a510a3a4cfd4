// What one shows to be let in: the run's token, and with certificates one of them.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace troupe::links {

struct tls_context;

struct credentials {
  /// Known to all processes of a run; never sent.
  std::string token;
  /// How links are encrypted (links/tls_context.hpp). Null: not at all, they are plain TCP.
  std::shared_ptr<const tls_context> tls = nullptr;
  /// A listener with `tls` also takes those who come without.
  bool plain_too = false;
  /// With certificates: the name or address that the certificate of who listens must have. Empty: what is dialled.
  std::string peer_name = {};
  /// With certificates: the fingerprint of the one that who listens must show, whatever its names. Empty: any that is
  /// good for `peer_name`.
  std::string peer_certificate = {};
};

/// Reads the token from `file`, if given, else from the environment variable TROUPE_TOKEN: at least 16 characters, at
/// most 4096 bytes, white space at both ends left out. A file that others than its owner may read is refused.
result<std::string> read_token(const std::optional<std::string>& file);

/// Why somebody could guess the token, in words that do not show it; null if nobody could who does not know how it was
/// made.
std::optional<std::string> weakness_of(const std::string& token);

/// A token that nobody can guess: 32 random bytes in hexadecimal.
std::string random_token();

/// A key made of a token.
using token_key = std::array<unsigned char, 32>;

/// By scrypt (N 2^15, r 8, p 1; 32 MiB), so that to try a guess takes as long as this, some 0.1 s. The key of the last
/// token is kept. From any thread.
token_key stretched_key(const std::string& token);

/// By HKDF-SHA256, at once: for a token of `random_token`, which nobody tries to guess.
token_key expanded_key(const std::string& token);

/// In hexadecimal, and back; null if the text is none.
std::string to_text(const token_key& key);
std::optional<token_key> to_token_key(const std::string& text);

using nonce = std::array<std::byte, 32>;
using token_proof = std::array<std::byte, 32>;

/// What the two ends of one TLS connection, and nobody else, have in common; zeros without TLS.
using channel_binding = std::array<std::byte, 32>;

/// What is known of an open connection beside its bytes.
struct channel {
  channel_binding binding{};
  /// The fingerprint of the certificate that the other side has shown: SHA-256 in hexadecimal. Empty: it has shown
  /// none.
  std::string peer_certificate = {};
};

nonce random_nonce();

/// HMAC-SHA256 with the token as key over `role`, then both nonces, then what the connection is. Shows that one knows
/// the token without saying it, and is of no use on another connection.
token_proof prove(const std::string& token, const char* role, const nonce& mine, const nonce& theirs,
                  const channel_binding& channel);

/// Compares in constant time.
bool same_proof(const token_proof& a, const token_proof& b);

}  // namespace troupe::links
