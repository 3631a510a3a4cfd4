// Who is let in with TLS on, and what each side is told otherwise.

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/links/certificates.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"

namespace troupe::tls_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class TlsTest : public LinkStage {
 protected:
  static credentials with(const tls_files& files) {
    auto made = make_tls(files);
    EXPECT_TRUE(made) << made.error().message;
    return {good_token, *made};
  }

  /// Connects where `theirs` listen, and gives back what both sides have to say about it.
  void expect_faults(const credentials& theirs, const credentials& mine, const std::string& acceptor_says,
                     link_errc acceptor_code, const std::string& connector_says, link_errc connector_code) {
    const auto result = connected(listen(theirs), mine);
    ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
    EXPECT_EQ(rejected[0].code, acceptor_code);
    EXPECT_TRUE(has(rejected[0].message, acceptor_says)) << rejected[0].message;
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, connector_code);
    EXPECT_TRUE(has(result.error().message, connector_says)) << result.error().message;
    EXPECT_TRUE(accepted.empty());
    EXPECT_TRUE(hellos.empty());
  }

  const authority ours{"ours"};
  const authority other{"other"};
  const credentials plain{good_token, nullptr};
};

TEST_F(TlsTest, certificates_of_one_authority_trust_each_other) {
  const auto result = connected(listen(with(ours.issue("a"))), with(ours.issue("b")));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(find_item((*result)->peer(), "role"), "acceptor");
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  EXPECT_EQ(find_item(accepted[0]->peer(), "role"), "connector");
}

TEST_F(TlsTest, the_token_is_needed_as_well) {
  credentials stranger = with(ours.issue("b"));
  stranger.token = "another token of that length";
  expect_faults(with(ours.issue("a")), stranger, "has another token", link_errc::not_trusted, "has another token",
                link_errc::not_trusted);
}

TEST_F(TlsTest, who_shows_no_certificate_is_not_let_in) {
  const credentials bare{good_token, std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tlsv13)};
  expect_faults(with(ours.issue("a")), bare, "shows no certificate", link_errc::not_trusted, "certificate required",
                link_errc::not_trusted);
}

TEST_F(TlsTest, a_certificate_of_an_unknown_authority_is_not_trusted_by_the_connector) {
  expect_faults(with(other.issue("a")), with(ours.issue("b")), "unknown ca", link_errc::not_trusted,
                "its certificate is not trusted: ", link_errc::not_trusted);
}

TEST_F(TlsTest, a_certificate_of_an_unknown_authority_is_not_trusted_by_the_acceptor) {
  tls_files trusts_both = other.issue("b");
  trusts_both.ca = ours.issue("x").ca;
  expect_faults(with(ours.issue("a")), with(trusts_both), "unable to get local issuer certificate",
                link_errc::not_trusted, "unknown ca", link_errc::not_trusted);
}

TEST_F(TlsTest, an_expired_certificate_is_refused_in_so_many_words) {
  // Its owner would be told when it makes its context: so it gets hold of a context first.
  const credentials late = with(ours.issue("b"));
  const tls_files expired = ours.issue("expired", -60);
  SSL_CTX* context = late.tls->native_handle();
  ASSERT_EQ(SSL_CTX_use_certificate_file(context, expired.certificate.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context, expired.key.c_str(), SSL_FILETYPE_PEM), 1);
  expect_faults(with(ours.issue("a")), late, "certificate has expired", link_errc::not_trusted, "certificate expired",
                link_errc::not_trusted);
}

TEST_F(TlsTest, a_plain_connector_at_a_tls_port_is_told_on_both_sides) {
  expect_faults(with(ours.issue("a")), plain, "does not use TLS", link_errc::no_peer, "uses TLS", link_errc::no_peer);
}

TEST_F(TlsTest, a_tls_connector_at_a_plain_port_is_told_on_both_sides) {
  expect_faults(plain, with(ours.issue("b")), "uses TLS", link_errc::no_peer, "does not use TLS", link_errc::no_peer);
}

TEST_F(TlsTest, another_program_at_a_tls_port_is_shown_by_its_first_words) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a"))));
  stranger.say("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_EQ(rejected[0].code, link_errc::no_peer);
  EXPECT_TRUE(has(rejected[0].message, "speaks no TLS; it said \"GET / \"")) << rejected[0].message;
}

TEST_F(TlsTest, a_tls_port_says_nothing_to_who_has_shown_no_certificate) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a")), {.time = std::chrono::milliseconds(100)}));
  ASSERT_TRUE(wait([&] { return !stranger.hear(); }));
  EXPECT_TRUE(stranger.received().empty());
  EXPECT_EQ(rejected.size(), 1U);
}

TEST_F(TlsTest, garbage_in_tls_records_is_refused) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a"))));
  std::vector<std::byte> record(1000, std::byte{0x55});
  record[0] = std::byte{0x16};
  record[1] = std::byte{3};
  record[2] = std::byte{1};
  record[3] = std::byte{0};
  record[4] = std::byte{200};
  record[6] = record[7] = std::byte{0};  // one message that fills it
  record[8] = std::byte{196};
  stranger.say(record);
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_TRUE(has(rejected[0].message, "the TLS handshake failed")) << rejected[0].message;
}

}  // namespace
}  // namespace troupe::tls_test
