// How links are encrypted, by TLS 1.3 always: by the run's token, which is the pre-shared key of both sides, or by
// certificates, which both sides show. Only two that do the same come together; each is told what the other does.
//
// With the token the key exchange is ephemeral too (psk_dhe_ke): who learns the token later reads nothing of before.

#pragma once

#include <memory>

#include "base/result.hpp"
#include "links/credentials.hpp"

struct ssl_ctx_st;

namespace troupe::links {

/// For any number of connections, of any thread; used by credentials.
struct tls_context {
  std::shared_ptr<ssl_ctx_st> settings;
  bool by_certificates = false;
  /// The token's key; unused with certificates.
  token_key key{};
};

using tls_ptr = std::shared_ptr<const tls_context>;

/// By the token that `key` was made of. Fault: this OpenSSL has no TLS 1.3.
result<tls_ptr> make_tls(const token_key& key);

/// Files in PEM format. Both sides show a certificate and verify the other's against `ca`.
struct tls_files {
  std::string certificate;
  std::string key;
  std::string ca;
};

/// By a certificate, which every peer needs from `files.ca`. Faults name the file and what is wrong with it (missing,
/// unreadable, a key that others may read, key and certificate differ, expired).
result<tls_ptr> make_tls(const tls_files& files);

}  // namespace troupe::links
