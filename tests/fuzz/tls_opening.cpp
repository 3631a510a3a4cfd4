// The check of TLS's unencrypted beginning must give the same result for any division of the bytes into pieces.
//
// The first byte of an input is the size of the pieces.

#include "cluster/links/tls_opening.hpp"

#include <openssl/ssl.h>

#include <algorithm>

#include "cluster/links/bytes.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::tls_opening_target {

/// The first message of an OpenSSL client.
bytes client_hello() {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* client = SSL_new(context);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(client, BIO_new(BIO_s_mem()), out);
  SSL_connect(client);
  bytes said(BIO_ctrl_pending(out));
  BIO_read(out, said.data(), static_cast<int>(said.size()));
  SSL_free(client);
  SSL_CTX_free(context);
  return said;
}

bytes in_pieces_of(std::uint8_t size, const bytes& all) {
  bytes one;
  links::append_number(one, size);
  links::append(one, all);
  return one;
}

std::vector<std::pair<std::string, bytes>> seeds() {
  const bytes hello = client_hello();
  bytes then_encrypted = hello;
  for (const int one : {23, 3, 3, 0, 2, 0xff, 0xff}) then_encrypted.push_back(static_cast<std::byte>(one));
  bytes too_long = hello;
  too_long[6] = std::byte{1};
  return {
      {"client_hello", in_pieces_of(255, hello)},
      {"then_encrypted", in_pieces_of(3, then_encrypted)},
      {"announces_64_kib", in_pieces_of(1, too_long)},
      {"alert",
       in_pieces_of(2, {std::byte{21}, std::byte{3}, std::byte{3}, {}, std::byte{2}, std::byte{2}, std::byte{40}})}};
}

void run(std::span<const std::byte> given) {
  if (given.empty()) return;
  const std::size_t piece = std::max(std::to_integer<std::size_t>(given[0]), std::size_t{1});
  auto all = given.subspan(1);
  links::tls_opening at_once;
  const bool whole = at_once.accepts(all);
  links::tls_opening bit_by_bit;
  bool cut = true;
  while (cut && !all.empty()) {
    cut = bit_by_bit.accepts(all.first(std::min(piece, all.size())));
    all = all.subspan(std::min(piece, all.size()));
  }
  must(whole == cut, "the judgement depends on how the bytes are cut");
}

}  // namespace troupe::fuzz::tls_opening_target

TROUPE_FUZZ_TARGET(tls_opening)
