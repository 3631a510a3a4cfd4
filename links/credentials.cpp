#include "links/credentials.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "links/private_file.hpp"

namespace troupe {

namespace {

constexpr std::size_t token_length_min = 16;
constexpr std::size_t token_length_max = 4096;
constexpr const char* token_variable = "TROUPE_TOKEN";

void fill_with_random(std::span<unsigned char> bytes) {
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1) return;
  // There is no way to go on: whatever was made of other bytes could be guessed.
  std::fputs("the system gives no random bytes\n", stderr);
  std::abort();
}

std::string_view without_space_around(std::string_view text) {
  constexpr const char* space = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

/// `source` says where the token stood; the token itself never shows in a text.
link_result<std::string> judged_token(std::string_view text, const std::string& source) {
  const std::string_view token = without_space_around(text);
  if (token.size() >= token_length_min && token.size() <= token_length_max) return std::string(token);
  return link_failed(link_errc::bad_setting,
                     fmt::format("{}: a token of {} characters; {} to {} are needed, e.g. from `openssl rand -hex 32`",
                                 source, token.size(), token_length_min, token_length_max));
}

link_result<std::string> token_in_file(const std::string& path) {
  // With room for white space around the longest token.
  const auto text = read_private_file("token file", path, 2 * token_length_max);
  if (!text) return tl::unexpected(text.error());
  return judged_token(*text, "token file " + path);
}

}  // namespace

link_result<std::string> read_token(const std::optional<std::string>& file) {
  if (file) return token_in_file(*file);
  if (const char* text = std::getenv(token_variable)) return judged_token(text, token_variable);
  return link_failed(
      link_errc::bad_setting,
      fmt::format("no token: the processes of a run must share one; give --token-file FILE or set {}", token_variable));
}

std::string random_token() {
  const nonce bytes = random_nonce();
  std::string text;
  for (std::byte one : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(one));
  return text;
}

nonce random_nonce() {
  nonce bytes;
  fill_with_random({reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()});
  return bytes;
}

token_proof prove(const std::string& token, const char* role, const nonce& mine, const nonce& theirs) {
  std::vector<unsigned char> said(role, role + std::strlen(role));
  for (const nonce* part : {&mine, &theirs})
    for (std::byte one : *part) said.push_back(static_cast<unsigned char>(one));
  token_proof proof;
  unsigned length = 0;
  const auto* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), said.data(), said.size(),
                          reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr || length != proof.size()) {
    std::fputs("OpenSSL cannot compute HMAC-SHA256\n", stderr);  // a proof of zeros would be one that anybody can give
    std::abort();
  }
  return proof;
}

bool same_proof(const token_proof& a, const token_proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace troupe
