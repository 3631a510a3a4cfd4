#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509err.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "links/credentials.hpp"
#include "links/private_file.hpp"

namespace troupe {

namespace {

using bio_ptr = std::unique_ptr<BIO, decltype(&BIO_free)>;

link_fault wrong(const char* option, const std::string& path, const std::string& what) {
  return {link_errc::bad_setting, fmt::format("{} {}: {}", option, path, what)};
}

/// What OpenSSL says about its last failure.
std::string last_words() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown error";
}

std::string text_of(const ASN1_TIME* time) {
  const bio_ptr memory(BIO_new(BIO_s_mem()), BIO_free);
  ASN1_TIME_print(memory.get(), time);
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(length)};
}

/// Null if now is within the time of `certificate`.
std::optional<std::string> out_of_time(const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    return "the certificate expired on " + text_of(X509_get0_notAfter(certificate));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    return "the certificate is not valid before " + text_of(X509_get0_notBefore(certificate)) + "; is the clock right?";
  return std::nullopt;
}

std::optional<std::string> unreadable(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) return std::strerror(errno);
  // A directory can be opened, but not read.
  if (file.peek(); file.bad()) return "cannot be read";
  return std::nullopt;
}

std::optional<link_fault> load_certificate(SSL_CTX* tls, const std::string& path) {
  constexpr const char* option = "--tls-cert";
  if (auto why = unreadable(path)) return wrong(option, path, *why);
  if (SSL_CTX_use_certificate_chain_file(tls, path.c_str()) != 1)
    return wrong(option, path, "holds no certificate in PEM format: " + last_words());
  if (auto why = out_of_time(SSL_CTX_get0_certificate(tls))) return wrong(option, path, *why);
  return std::nullopt;
}

std::optional<link_fault> load_key(SSL_CTX* tls, const std::string& path, const std::string& certificate) {
  constexpr const char* option = "--tls-key";
  constexpr std::size_t key_bytes_max = 64 * 1024;
  const auto text = read_private_file(option, path, key_bytes_max);
  if (!text) return text.error();
  const bio_ptr memory(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())), BIO_free);
  // OpenSSL would ask for a passphrase at the terminal.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  const bool loaded = key && SSL_CTX_use_PrivateKey(tls, key.get()) == 1;
  const bool differs = key && !loaded && ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509 &&
                       ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
  if (!loaded && !differs)
    return wrong(option, path, "holds no private key in PEM format without a passphrase: " + last_words());
  if (differs || SSL_CTX_check_private_key(tls) != 1)
    return wrong(option, path, "is not the key of the certificate in " + certificate);
  return std::nullopt;
}

std::optional<link_fault> load_authority(SSL_CTX* tls, const std::string& path) {
  constexpr const char* option = "--tls-ca";
  if (auto why = unreadable(path)) return wrong(option, path, *why);
  const bio_ptr file(BIO_new_file(path.c_str(), "r"), BIO_free);
  std::optional<std::string> problem = "holds no certificate in PEM format";
  for (bool first = true; file; first = false) {
    const std::unique_ptr<X509, decltype(&X509_free)> one(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr),
                                                          X509_free);
    if (!one) break;
    auto late = out_of_time(one.get());
    // One that is still good is enough.
    if (first || !late) problem = std::move(late);
    if (!problem) break;
  }
  if (problem) return wrong(option, path, *problem);
  if (SSL_CTX_load_verify_locations(tls, path.c_str(), nullptr) != 1)
    return wrong(option, path, "cannot be used: " + last_words());
  return std::nullopt;
}

/// What every connection needs, whatever the files: the latest protocol, both sides certified, and nothing that a
/// peer who shows no certificate could make large.
void restrict(SSL_CTX* tls) {
  constexpr long certificates_bytes_max = 16 * 1024;
  constexpr int chain_length_max = 8;
  SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(tls, chain_length_max);
  SSL_CTX_set_max_cert_list(tls, certificates_bytes_max);
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(tls, 0);
}

}  // namespace

link_result<std::shared_ptr<boost::asio::ssl::context>> make_tls(const tls_files& files) {
  std::shared_ptr<boost::asio::ssl::context> made;
  try {
    made = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tlsv13);
  } catch (const std::exception& problem) {
    return link_failed(link_errc::bad_setting, std::string("TLS cannot be used here: ") + problem.what());
  }
  SSL_CTX* tls = made->native_handle();
  ERR_clear_error();
  restrict(tls);
  auto problem = load_certificate(tls, files.certificate);
  if (!problem) problem = load_key(tls, files.key, files.certificate);
  if (!problem) problem = load_authority(tls, files.ca);
  ERR_clear_error();
  if (problem) return tl::unexpected(std::move(*problem));
  return made;
}

}  // namespace troupe
