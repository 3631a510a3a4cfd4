#include "tests/links/certificates.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace troupe::links {

namespace {

void check(bool good) {
  if (!good) throw std::runtime_error("OpenSSL cannot make a certificate");
}

template <class Write>
std::string pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
  check(write(memory.get()) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::shared_ptr<EVP_PKEY> make_key() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

/// Self-signed if `issuer` is null.
std::shared_ptr<X509> make_certificate(const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key,
                                       long seconds_left, std::size_t padding = 0, const std::string& names = {}) {
  static long serial = 0;
  const std::shared_ptr<X509> made(X509_new(), X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -7200);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), seconds_left);
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer != nullptr ? issuer : made.get()));
  if (issuer == nullptr) {
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> is_authority(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"), X509_EXTENSION_free);
    check(X509_add_ext(made.get(), is_authority.get(), -1) == 1);
  }
  const auto extend = [&made](int what, const std::string& value) {
    if (value.empty()) return;
    const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> one(
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str()), X509_EXTENSION_free);
    check(X509_add_ext(made.get(), one.get(), -1) == 1);
  };
  extend(NID_netscape_comment, std::string(padding, 'x'));
  extend(NID_subject_alt_name, names);
  check(X509_sign(made.get(), issuer_key != nullptr ? issuer_key : key, EVP_sha256()) != 0);
  return made;
}

}  // namespace

std::string fingerprint_of(const tls_files& files) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(files.certificate.c_str(), "r"), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> one(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr),
                                                        X509_free);
  token_key digest;  // as long as a SHA-256 digest
  check(one && X509_digest(one.get(), EVP_sha256(), digest.data(), nullptr) == 1);
  return to_text(digest);
}

secrets_folder::secrets_folder() {
  path_ = (std::filesystem::temp_directory_path() / "troupe-links-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
}

secrets_folder::~secrets_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string secrets_folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  ::chmod(path(name).c_str(), S_IRUSR | S_IWUSR);
  return path(name);
}

authority::authority(const std::string& name, long seconds_left)
    : name_(name), key_(make_key()), certificate_(make_certificate(name, key_.get(), nullptr, nullptr, seconds_left)) {
  folder_.write(name_ + ".ca", pem([this](BIO* to) { return PEM_write_bio_X509(to, certificate_.get()); }));
}

tls_files authority::issue(const std::string& name, long seconds_left, std::size_t padding,
                           const std::string& names) const {
  const auto key = make_key();
  const auto made = make_certificate(name, key.get(), certificate_.get(), key_.get(), seconds_left, padding, names);
  return {folder_.write(name + ".crt", pem([&](BIO* to) { return PEM_write_bio_X509(to, made.get()); })),
          folder_.write(name + ".key", pem([&](BIO* to) {
                          return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
                        })),
          folder_.path(name_ + ".ca")};
}

}  // namespace troupe::links
