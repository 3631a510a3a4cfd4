// Credentials of a process: the run's token, and perhaps a certificate.

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
  /// The run's token: known to all processes of the run, and never sent.
  std::string token;
  /// How links are encrypted (cluster/links/tls_context.hpp). Null: plain TCP.
  std::shared_ptr<const tls_context> tls = nullptr;
  /// A listener with `tls` also accepts plain connections.
  bool plain_too = false;
  /// With certificates: the name or address that the listener's certificate must have. Empty: the dialled one.
  std::string peer_name = {};
  /// With certificates: the required fingerprint of the listener's certificate, whatever its names. Empty: any
  /// certificate that is valid for `peer_name`.
  std::string peer_certificate = {};
};

/// Reads the token from `file`, else from the variable TROUPE_TOKEN: at least 16 characters, at most 4096 bytes,
/// without white space at both ends. Refuses a file that users other than its owner may read.
result<std::string> read_token(const std::optional<std::string>& file);

/// Returns why the token is weak, without showing it; null if it is strong.
std::optional<std::string> weakness_of(const std::string& token);

/// Returns a new token: 32 random bytes in hexadecimal.
std::string random_token();

/// A key derived from a token.
using token_key = std::array<unsigned char, 32>;

/// Derives the key by scrypt (N 2^15, r 8, p 1; 32 MiB), so that each guess also costs an attacker about 0.1 s. Caches
/// the key of the last token. Thread: any.
token_key stretched_key(const std::string& token);

/// Derives the key by HKDF-SHA256, which is fast: for tokens of `random_token`, which cannot be guessed.
token_key expanded_key(const std::string& token);

/// Converts a key to hexadecimal and back; null if the text is not a key.
std::string to_text(const token_key& key);
std::optional<token_key> to_token_key(const std::string& text);

using nonce = std::array<std::byte, 32>;
using token_proof = std::array<std::byte, 32>;

/// A secret that only the two ends of a TLS connection share; zeros without TLS.
using channel_binding = std::array<std::byte, 32>;

/// Security properties of an open connection.
struct channel {
  channel_binding binding{};
  /// The fingerprint of the other side's certificate: SHA-256 in hexadecimal. Empty: it has none.
  std::string peer_certificate = {};
};

nonce random_nonce();

/// Computes HMAC-SHA256 with the token as key over `role`, both nonces, and the connection's secret. It proves
/// knowledge of the token without sending it, and is valid on this connection only.
token_proof prove(const std::string& token, const char* role, const nonce& mine, const nonce& theirs,
                  const channel_binding& channel);

/// Compares in constant time.
bool same_proof(const token_proof& a, const token_proof& b);

}  // namespace troupe::links
