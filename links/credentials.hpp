// What one shows to be let in: the run token, and with TLS a certificate.

#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "links/fault.hpp"

namespace troupe {

/// Files in PEM format. Both sides show a certificate and verify the other's against `ca`.
struct tls_files {
  std::string certificate;
  std::string key;
  std::string ca;
};

struct credentials {
  /// Known to all processes of a run; never sent.
  std::string token;
  /// Null: plain TCP.
  std::shared_ptr<boost::asio::ssl::context> tls;
};

/// Reads the token from `file`, if given, else from the environment variable TROUPE_TOKEN: at least 16 characters, at
/// most 4096 bytes, white space at both ends left out. A file that others than its owner may read is refused.
link_result<std::string> read_token(const std::optional<std::string>& file);

/// A token that nobody can guess: 32 random bytes in hexadecimal.
std::string random_token();

/// A context of TLS 1.3, mutual, that needs a certificate of `files.ca` from every peer. Faults name the file and what
/// is wrong with it (missing, unreadable, a key that others may read, key and certificate differ, expired).
link_result<std::shared_ptr<boost::asio::ssl::context>> make_tls(const tls_files& files);

using nonce = std::array<std::byte, 32>;
using token_proof = std::array<std::byte, 32>;

nonce random_nonce();

/// HMAC-SHA256 with the token as key over `role`, then both nonces. Shows that one knows the token without saying it.
token_proof prove(const std::string& token, const char* role, const nonce& mine, const nonce& theirs);

/// Compares in constant time.
bool same_proof(const token_proof& a, const token_proof& b);

}  // namespace troupe
