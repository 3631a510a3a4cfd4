#include "cluster/links/credentials.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "cluster/links/private_file.hpp"

namespace troupe::links {

namespace {

constexpr std::size_t token_length_min = 16;
constexpr std::size_t token_length_max = 4096;
constexpr const char* token_variable = "TROUPE_TOKEN";

/// Ends the program if a cryptographic function fails: continuing would be insecure.
[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "OpenSSL cannot compute %s\n", what);
  std::abort();
}

std::string_view without_space_around(std::string_view text) {
  constexpr const char* space = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

/// `source` names the token's source; no text contains the token itself.
result<std::string> checked_token(std::string_view text, const std::string& source) {
  const std::string_view token = without_space_around(text);
  if (token.size() >= token_length_min && token.size() <= token_length_max) return std::string(token);
  return failure(fault_kind::input,
                 fmt::format("{}: a token of {} characters; {} to {} are needed, e.g. from `openssl rand -hex 32`",
                             source, token.size(), token_length_min, token_length_max));
}

result<std::string> token_in_file(const std::string& path) {
  // Includes white space around the longest token.
  TROUPE_TRY(text, read_private_file("token file", path, 2 * token_length_max));
  return checked_token(text, "token file " + path);
}

}  // namespace

result<std::string> read_token(const std::optional<std::string>& file) {
  if (file) return token_in_file(*file);
  if (const char* text = std::getenv(token_variable)) return checked_token(text, token_variable);
  return failure(
      fault_kind::input,
      fmt::format("no token: the processes of a run must share one; give --token-file FILE or set {}", token_variable));
}

std::optional<std::string> weakness_of(const std::string& token) {
  constexpr std::size_t length_min = 22;  // 128 random bits in base64
  constexpr std::size_t kinds_min = 12;
  const std::size_t kinds = std::set<char>(token.begin(), token.end()).size();
  if (token.size() >= length_min && kinds >= kinds_min) return std::nullopt;
  return fmt::format(
      "the token may be guessed: it has {} characters and {} different ones, and should have at least {} and {}, as "
      "from `openssl rand -hex 32`",
      token.size(), kinds, length_min, kinds_min);
}

std::string random_token() {
  token_key bytes;
  const nonce random = random_nonce();
  std::memcpy(bytes.data(), random.data(), bytes.size());
  return to_text(bytes);
}

token_key stretched_key(const std::string& token) {
  constexpr std::string_view salt = "troupe: TLS by the run's token";
  constexpr std::uint64_t cost = std::uint64_t{1} << 15;
  constexpr std::uint64_t block = 8;
  constexpr std::uint64_t memory_max = std::uint64_t{64} << 20;  // it uses a little more than 32 MiB
  static std::mutex mutex;
  static std::string last_token;
  static token_key last_key;
  const std::scoped_lock lock(mutex);
  if (last_token == token && !token.empty()) return last_key;
  token_key key;
  if (EVP_PBE_scrypt(token.data(), token.size(), reinterpret_cast<const unsigned char*>(salt.data()), salt.size(), cost,
                     block, 1, memory_max, key.data(), key.size()) != 1)
    give_up("scrypt");
  last_token = token;
  last_key = key;
  return key;
}

token_key expanded_key(const std::string& token) {
  std::string digest = "SHA256";
  std::string secret = token;
  std::string purpose = "troupe: TLS by a random token";
  const std::array<OSSL_PARAM, 4> settings = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, purpose.data(), purpose.size()),
      OSSL_PARAM_construct_end()};
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> method(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(method.get()),
                                                                          EVP_KDF_CTX_free);
  token_key key;
  if (!context || EVP_KDF_derive(context.get(), key.data(), key.size(), settings.data()) != 1) give_up("HKDF");
  return key;
}

std::string to_text(const token_key& key) { return fmt::format("{:02x}", fmt::join(key, "")); }

std::optional<token_key> to_token_key(const std::string& text) {
  constexpr int base = 16;
  token_key key;
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* begin = text.data() + 2 * i;
    if (std::from_chars(begin, begin + 2, key[i], base).ptr != begin + 2) return std::nullopt;
  }
  return key;
}

nonce random_nonce() {
  nonce bytes;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    give_up("random bytes");
  return bytes;
}

token_proof prove(const std::string& token, const char* role, const nonce& mine, const nonce& theirs,
                  const channel_binding& channel) {
  const auto said_of_role = std::as_bytes(std::span(role, std::strlen(role)));
  std::vector<std::byte> said(said_of_role.begin(), said_of_role.end());
  for (const auto* part : {&mine, &theirs, &channel}) said.insert(said.end(), part->begin(), part->end());
  token_proof proof;
  unsigned length = 0;
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                          reinterpret_cast<const unsigned char*>(said.data()), said.size(),
                          reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr || length != proof.size()) give_up("HMAC-SHA256");
  return proof;
}

bool same_proof(const token_proof& a, const token_proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace troupe::links
