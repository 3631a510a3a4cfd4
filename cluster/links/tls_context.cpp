#include "cluster/links/tls_context.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509err.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/input_files.hpp"
#include "cluster/links/private_file.hpp"

namespace troupe::links {

namespace {

using bio_ptr = std::unique_ptr<BIO, decltype(&BIO_free)>;

tl::unexpected<fault> wrong(const char* option, const std::string& path, const std::string& what) {
  return bad_input("{} {}: {}", option, path, what);
}

/// Returns OpenSSL's text about its last failure.
std::string last_bytes() {
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

/// Returns what is wrong with the validity period of `certificate`; null if it includes now.
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
  // A directory can be opened but not read.
  if (file.peek(); file.bad()) return "cannot be read";
  remember_input(path, "a certificate that this command reads");
  return std::nullopt;
}

result<void> load_certificate(SSL_CTX* tls, const std::string& path) {
  constexpr const char* option = "--tls-cert";
  if (auto why = unreadable(path)) return wrong(option, path, *why);
  if (SSL_CTX_use_certificate_chain_file(tls, path.c_str()) != 1)
    return wrong(option, path, "holds no certificate in PEM format: " + last_bytes());
  if (auto why = out_of_time(SSL_CTX_get0_certificate(tls))) return wrong(option, path, *why);
  return {};
}

result<void> load_key(SSL_CTX* tls, const std::string& path, const std::string& certificate) {
  constexpr const char* option = "--tls-key";
  constexpr std::size_t key_bytes_max = 64 * 1024;
  TROUPE_TRY(text, read_private_file(option, path, key_bytes_max));
  const bio_ptr memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  // Else OpenSSL would ask for a passphrase at the terminal.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(memory.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  const bool loaded = key && SSL_CTX_use_PrivateKey(tls, key.get()) == 1;
  const bool differs = key && !loaded && ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509 &&
                       ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
  if (!loaded && !differs)
    return wrong(option, path, "holds no private key in PEM format without a passphrase: " + last_bytes());
  if (differs || SSL_CTX_check_private_key(tls) != 1)
    return wrong(option, path, "is not the key of the certificate in " + certificate);
  return {};
}

result<void> load_authority(SSL_CTX* tls, const std::string& path) {
  constexpr const char* option = "--tls-ca";
  if (auto why = unreadable(path)) return wrong(option, path, *why);
  const bio_ptr file(BIO_new_file(path.c_str(), "r"), BIO_free);
  std::optional<std::string> problem = "holds no certificate in PEM format";
  for (bool first = true; file; first = false) {
    const std::unique_ptr<X509, decltype(&X509_free)> one(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr),
                                                          X509_free);
    if (!one) break;
    auto late = out_of_time(one.get());
    // One valid certificate is enough.
    if (first || !late) problem = std::move(late);
    if (!problem) break;
  }
  if (problem) return wrong(option, path, *problem);
  if (SSL_CTX_load_verify_locations(tls, path.c_str(), nullptr) != 1)
    return wrong(option, path, "cannot be used: " + last_bytes());
  return {};
}

/// Common settings: TLS 1.3 only, no state that outlives a connection, and nothing that an unauthenticated peer can
/// make large. Peers need a certificate of a known authority, or the token: a context without an authority accepts no
/// certificate.
std::shared_ptr<SSL_CTX> make_settings() {
  constexpr long certificates_bytes_max = 16 * 1024;
  constexpr int chain_length_max = 8;
  std::shared_ptr<SSL_CTX> made(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* tls = made.get();
  if (tls == nullptr || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1) return nullptr;
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(tls, chain_length_max);
  SSL_CTX_set_max_cert_list(tls, certificates_bytes_max);
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(tls, 0);
  return made;
}

tl::unexpected<fault> no_tls() { return bad_input("TLS 1.3 cannot be used here: {}", last_bytes()); }

const tls_context& context_of(const SSL* ssl) {
  return *static_cast<const tls_context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

/// A connector that uses the token offers a pre-shared key, one with certificates does not. On a mismatch this side
/// sends an alert that OpenSSL itself never sends, so that `tls_transport` recognises the mismatch.
int check_client_hello(SSL* ssl, int* alert, void*) {
  const unsigned char* bytes = nullptr;
  std::size_t size = 0;
  const bool offers_key = SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &bytes, &size) == 1;
  const bool by_certificates = context_of(ssl).by_certificates;
  if (offers_key != by_certificates) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
  return SSL_CLIENT_HELLO_ERROR;
}

constexpr std::string_view key_name = "troupe";
const auto* const key_name_bytes = reinterpret_cast<const unsigned char*>(key_name.data());
constexpr const char* key_suite = "TLS_AES_128_GCM_SHA256";

/// Returns the token's key in the form of a session to resume, or null, for OpenSSL: no session.
SSL_SESSION* session_by_token(SSL* ssl) {
  constexpr std::array<unsigned char, 2> suite = {0x13, 0x01};  // key_suite
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, suite.data());
  const token_key& key = context_of(ssl).key;
  SSL_SESSION* made = SSL_SESSION_new();
  if (made != nullptr && cipher != nullptr && SSL_SESSION_set1_master_key(made, key.data(), key.size()) == 1 &&
      SSL_SESSION_set_cipher(made, cipher) == 1 && SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1 &&
      SSL_SESSION_set1_id_context(made, key_name_bytes, static_cast<unsigned>(key_name.size())) == 1)
    return made;
  SSL_SESSION_free(made);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
  *name = key_name_bytes;
  *size = key_name.size();
  *session = session_by_token(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
  const bool known = std::string_view(reinterpret_cast<const char*>(name), size) == key_name;
  *session = known ? session_by_token(ssl) : nullptr;
  return 1;
}

result<tls_ptr> finished(std::shared_ptr<SSL_CTX> settings, bool by_certificates, const token_key& key) {
  const auto made = std::make_shared<tls_context>(tls_context{std::move(settings), by_certificates, key});
  SSL_CTX* tls = made->settings.get();
  SSL_CTX_set_app_data(tls, made.get());
  SSL_CTX_set_client_hello_cb(tls, check_client_hello, nullptr);
  ERR_clear_error();
  return made;
}

}  // namespace

result<tls_ptr> make_tls(const token_key& key) {
  ERR_clear_error();
  auto settings = make_settings();
  // The key has this suite's hash; other suites would be refused later.
  if (!settings || SSL_CTX_set_ciphersuites(settings.get(), key_suite) != 1 ||
      SSL_CTX_set_session_id_context(settings.get(), key_name_bytes, static_cast<unsigned>(key_name.size())) != 1)
    return no_tls();
  SSL_CTX_set_psk_use_session_callback(settings.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(settings.get(), find_key);
  return finished(std::move(settings), false, key);
}

result<tls_ptr> make_tls(const tls_files& files) {
  ERR_clear_error();
  auto settings = make_settings();
  if (!settings) return no_tls();
  auto loaded = load_certificate(settings.get(), files.certificate);
  if (loaded) loaded = load_key(settings.get(), files.key, files.certificate);
  if (loaded) loaded = load_authority(settings.get(), files.ca);
  ERR_clear_error();
  if (!loaded) return tl::unexpected(std::move(loaded.error()));
  return finished(std::move(settings), true, {});
}

}  // namespace troupe::links
