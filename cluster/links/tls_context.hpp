// Encryption of links by TLS 1.3: with a pre-shared key derived from the run's token, or with certificates of both
// sides. Both sides must use the same way; a mismatch is reported on each side.
//
// With the token the key exchange is also ephemeral (psk_dhe_ke): the token does not decrypt earlier connections.

#pragma once

#include <memory>

#include "base/result.hpp"
#include "cluster/links/credentials.hpp"

struct ssl_ctx_st;

namespace troupe::links {

/// The TLS context of any number of connections. Thread: any.
struct tls_context {
  std::shared_ptr<ssl_ctx_st> settings;
  bool by_certificates = false;
  /// The token's key; unused with certificates.
  token_key key{};
};

using tls_ptr = std::shared_ptr<const tls_context>;

/// Makes a context with the pre-shared key `key`. Fault: this OpenSSL has no TLS 1.3.
result<tls_ptr> make_tls(const token_key& key);

/// Files in PEM format. Both sides send a certificate and verify the other's against `ca`.
struct tls_files {
  std::string certificate;
  std::string key;
  std::string ca;
};

/// Makes a context with a certificate; peers need one of `files.ca`. Faults name the file and the problem (missing,
/// unreadable, a key that others may read, key and certificate differ, expired).
result<tls_ptr> make_tls(const tls_files& files);

}  // namespace troupe::links
