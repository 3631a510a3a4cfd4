// Which peers are admitted with TLS, and what each side reports otherwise.

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/links/certificates.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"
#include "tests/links/tls_relay.hpp"
#include "tests/value_of.hpp"

namespace troupe::links::tls_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class TlsTest : public LinkStage {
 protected:
  static credentials with(const tls_files& files) {
    auto made = make_tls(files);
    EXPECT_TRUE(made) << made.error().message;
    return {good_token, *made};
  }

  static credentials by_token(const std::string& token = good_token) { return {token, *make_tls(expanded_key(token))}; }

  /// Connects to a listener with `theirs`, and checks the errors of both sides.
  void expect_faults(const credentials& theirs, const credentials& mine, const std::string& acceptor_says,
                     fault_kind acceptor_code, const std::string& connector_says, fault_kind connector_code) {
    const auto result = connected(listen(theirs), mine);
    ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
    EXPECT_EQ(rejected[0].kind, acceptor_code);
    EXPECT_TRUE(has(rejected[0].message, acceptor_says)) << rejected[0].message;
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, connector_code);
    EXPECT_TRUE(has(result.error().message, connector_says)) << result.error().message;
    EXPECT_TRUE(accepted.empty());
    EXPECT_TRUE(hellos.empty());
  }

  const authority ours{"ours"};
  const authority other{"other"};
  const credentials plain{good_token, nullptr};
};

TEST_F(TlsTest, CertificatesOfOneAuthorityTrustEachOther) {
  const auto result = value_of(connected(listen(with(ours.issue("a"))), with(ours.issue("b"))));
  EXPECT_EQ(find_item(result->peer(), "role"), "acceptor");
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  EXPECT_EQ(find_item(accepted[0]->peer(), "role"), "connector");
}

TEST_F(TlsTest, TheTokenIsNeededAsWell) {
  credentials stranger = with(ours.issue("b"));
  stranger.token = "another token of that length";
  expect_faults(with(ours.issue("a")), stranger, "has another token", fault_kind::not_trusted, "has another token",
                fault_kind::not_trusted);
}

TEST_F(TlsTest, WhoShowsNoCertificateIsNotLetIn) {
  const credentials bare{
      good_token, std::make_shared<tls_context>(
                      tls_context{std::shared_ptr<SSL_CTX>(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), true, {}})};
  expect_faults(with(ours.issue("a")), bare, "shows no certificate", fault_kind::not_trusted, "certificate required",
                fault_kind::not_trusted);
}

TEST_F(TlsTest, ACertificateOfAnUnknownAuthorityIsNotTrustedByTheConnector) {
  expect_faults(with(other.issue("a")), with(ours.issue("b")), "unknown ca", fault_kind::not_trusted,
                "its certificate is not trusted: ", fault_kind::not_trusted);
}

TEST_F(TlsTest, ACertificateOfAnUnknownAuthorityIsNotTrustedByTheAcceptor) {
  tls_files trusts_both = other.issue("b");
  trusts_both.ca = ours.issue("x").ca;
  expect_faults(with(ours.issue("a")), with(trusts_both), "unable to get local issuer certificate",
                fault_kind::not_trusted, "unknown ca", fault_kind::not_trusted);
}

TEST_F(TlsTest, AnExpiredCertificateIsRefusedInSoManyWords) {
  // Loading an expired certificate is an error, so it is put into an existing context.
  const credentials late = with(ours.issue("b"));
  const tls_files expired = ours.issue("expired", -60);
  SSL_CTX* context = late.tls->settings.get();
  ASSERT_EQ(SSL_CTX_use_certificate_file(context, expired.certificate.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context, expired.key.c_str(), SSL_FILETYPE_PEM), 1);
  expect_faults(with(ours.issue("a")), late, "certificate has expired", fault_kind::not_trusted, "certificate expired",
                fault_kind::not_trusted);
}

TEST_F(TlsTest, APlainConnectorAtATlsPortIsToldOnBothSides) {
  expect_faults(with(ours.issue("a")), plain, "does not use TLS", fault_kind::no_peer, "uses TLS", fault_kind::no_peer);
}

TEST_F(TlsTest, ATlsConnectorAtAPlainPortIsToldOnBothSides) {
  expect_faults(plain, with(ours.issue("b")), "uses TLS", fault_kind::no_peer, "does not use TLS", fault_kind::no_peer);
}

TEST_F(TlsTest, AnotherProgramAtATlsPortIsShownByItsFirstWords) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a"))));
  stranger.say("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_EQ(rejected[0].kind, fault_kind::no_peer);
  EXPECT_TRUE(has(rejected[0].message, "speaks no TLS; it said \"GET / HTTP/1.1")) << rejected[0].message;
}

TEST_F(TlsTest, ATlsPortSaysNothingToWhoHasShownNoCertificate) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a")), {.time = std::chrono::milliseconds(100)}));
  ASSERT_TRUE(wait([&] { return !stranger.hear(); }));
  EXPECT_TRUE(stranger.received().empty());
  EXPECT_EQ(rejected.size(), 1U);
}

TEST_F(TlsTest, GarbageInTlsRecordsIsRefused) {
  raw_socket stranger = raw_socket::to(listen(with(ours.issue("a"))));
  std::vector<std::byte> record(1000, std::byte{0x55});
  record[0] = std::byte{0x16};
  record[1] = std::byte{3};
  record[2] = std::byte{1};
  record[3] = std::byte{0};
  record[4] = std::byte{200};
  record[6] = record[7] = std::byte{0};  // one message that fills the record
  record[8] = std::byte{196};
  stranger.say(record);
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_TRUE(has(rejected[0].message, "the TLS handshake failed")) << rejected[0].message;
}

// -- by the token ----------------------------------------------------------------------

TEST_F(TlsTest, TheTokenAloneMakesAnEncryptedLink) {
  const endpoint where = listen(by_token());
  tls_relay wire(where);  // without credentials it forwards and records the raw bytes
  const auto result = value_of(connected(wire.address(), by_token()));
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  EXPECT_EQ(find_item(accepted[0]->peer(), "role"), "connector");
  EXPECT_EQ(result->peer_certificate(), "");
  EXPECT_EQ(accepted[0]->peer_certificate(), "");
  EXPECT_TRUE(has(wire.seen(), std::string("\x16\x03", 2)));
  EXPECT_FALSE(has(wire.seen(), "TROUPE"));
  EXPECT_FALSE(has(wire.seen(), "connector"));
  EXPECT_EQ(SSL_CTX_get_options(by_token().tls->settings.get()) & SSL_OP_ALLOW_NO_DHE_KEX, 0U) << "psk_dhe_ke only";
}

TEST_F(TlsTest, AnotherTokenIsToldOnBothSidesAndShownOnNone) {
  const std::string other_token = "another token of that length";
  expect_faults(by_token(), by_token(other_token), "has another token", fault_kind::not_trusted, "has another token",
                fault_kind::not_trusted);
  EXPECT_FALSE(has(rejected[0].message, good_token) || has(rejected[0].message, other_token)) << rejected[0].message;
}

TEST_F(TlsTest, WhoHasTheTokenOnlyIsToldWhereCertificatesAreWanted) {
  expect_faults(with(ours.issue("a")), by_token(), "uses the token alone, this side certificates",
                fault_kind::not_trusted, "uses certificates, this side the token alone", fault_kind::not_trusted);
}

TEST_F(TlsTest, WhoGoesByCertificatesIsToldWhereTheTokenAloneIsWanted) {
  expect_faults(by_token(), with(ours.issue("b")), "uses certificates, this side the token alone",
                fault_kind::not_trusted, "uses the token alone, this side certificates", fault_kind::not_trusted);
}

TEST_F(TlsTest, APlainConnectorAtAPortOfTheTokenIsToldOnBothSides) {
  expect_faults(by_token(), plain, "does not use TLS", fault_kind::no_peer, "uses TLS", fault_kind::no_peer);
}

TEST_F(TlsTest, AConnectorByTheTokenAtAPlainPortIsToldOnBothSides) {
  expect_faults(plain, by_token(), "uses TLS", fault_kind::no_peer, "does not use TLS", fault_kind::no_peer);
}

TEST_F(TlsTest, ACertificateIsNoSubstituteForTheToken) {
  // An impostor in place of the run's master, which has a certificate and does not check what it is offered.
  const std::shared_ptr<SSL_CTX> settings(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const tls_files files = ours.issue("a");
  ASSERT_EQ(SSL_CTX_use_certificate_file(settings.get(), files.certificate.c_str(), SSL_FILETYPE_PEM), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(settings.get(), files.key.c_str(), SSL_FILETYPE_PEM), 1);
  const credentials impostor{good_token, std::make_shared<tls_context>(tls_context{settings, true, {}})};
  const auto result = connected(listen(impostor), by_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, fault_kind::not_trusted);
  EXPECT_TRUE(has(result.error().message, "uses certificates, this side the token alone")) << result.error().message;
  EXPECT_TRUE(hellos.empty());
}

TEST_F(TlsTest, APortThatTakesBothTakesPlainPeersAndThoseByTheTokenAndNoOthers) {
  credentials both = by_token();
  both.plain_too = true;
  const endpoint where = listen(both);
  for (const credentials& good : {plain, by_token()}) {
    const auto result = connected(where, good);
    EXPECT_TRUE(result) << result.error().message;
  }
  ASSERT_TRUE(wait([&] { return accepted.size() == 2; }));
  const std::string other_token = "another token of that length";
  for (const credentials& bad : {credentials{other_token}, by_token(other_token), with(ours.issue("b"))})
    EXPECT_FALSE(connected(where, bad));
  ASSERT_TRUE(wait([&] { return rejected.size() == 3; }));
  EXPECT_EQ(accepted.size(), 2U);
}

// -- names and fingerprints --------------------------------------------------------------

TEST_F(TlsTest, TheAddressThatIsDialledMustStandInTheCertificate) {
  expect_faults(with(ours.issue("a", 3600, 0, "IP:127.0.0.2,DNS:localhost")), with(ours.issue("b")), "bad certificate",
                fault_kind::not_trusted, "its certificate is not for 127.0.0.1", fault_kind::not_trusted);
}

TEST_F(TlsTest, TheNameThatIsDialledMustStandInTheCertificate) {
  const endpoint where = listen(with(ours.issue("a", 3600, 0, "IP:127.0.0.1,DNS:a.example")));
  const auto result = connected({"localhost", where.port}, with(ours.issue("b")));
  ASSERT_FALSE(result);
  EXPECT_TRUE(has(result.error().message, "its certificate is not for localhost")) << result.error().message;
}

TEST_F(TlsTest, ACommonNameIsNoName) {
  const auto result = connected(listen(with(ours.issue("127.0.0.1", 3600, 0, ""))), with(ours.issue("b")));
  ASSERT_FALSE(result);
  EXPECT_TRUE(has(result.error().message, "its certificate is not for 127.0.0.1")) << result.error().message;
}

TEST_F(TlsTest, AnotherNameMayBeWantedThanTheOneThatIsDialled) {
  const endpoint where = listen(with(ours.issue("a", 3600, 0, "IP:10.0.0.1,DNS:a.example")));
  for (const char* name : {"a.example", "10.0.0.1"}) {
    credentials mine = with(ours.issue("b"));
    mine.peer_name = name;
    const auto result = connected(where, mine);
    EXPECT_TRUE(result) << result.error().message;
    for (const char* wrong : {"b.example", ""}) {
      mine.peer_name = wrong;
      EXPECT_FALSE(connected(where, mine)) << wrong;
    }
  }
}

TEST_F(TlsTest, BothSidesLearnEachOthersFingerprint) {
  const endpoint where = listen(with(ours.issue("a")));
  const auto first = connected(where, with(ours.issue("b")));
  const auto second = connected(where, with(ours.issue("c")));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(wait([&] { return accepted.size() == 2; }));
  EXPECT_EQ((*first)->peer_certificate().size(), 64U);
  EXPECT_EQ((*first)->peer_certificate(), (*second)->peer_certificate());
  EXPECT_NE(accepted[0]->peer_certificate(), accepted[1]->peer_certificate());
  EXPECT_EQ(certificates, (std::vector<std::string>{accepted[0]->peer_certificate(), accepted[1]->peer_certificate()}));
}

TEST_F(TlsTest, OneCertificateMayBeWantedAndNoOther) {
  const endpoint where = listen(with(ours.issue("a")));
  credentials mine = with(ours.issue("b"));
  const auto before = value_of(connected(where, mine));
  mine.peer_name = "b.example";  // with the right certificate names do not matter
  mine.peer_certificate = before->peer_certificate();
  const auto right = connected(where, mine);
  EXPECT_TRUE(right) << right.error().message;
  mine.peer_name = "127.0.0.1";
  mine.peer_certificate.back() = mine.peer_certificate.back() == '0' ? '1' : '0';
  const auto wrong = connected(where, mine);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, fault_kind::not_trusted);
  EXPECT_TRUE(has(wrong.error().message, "its certificate is not the one that it had when it joined"))
      << wrong.error().message;
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_TRUE(has(rejected[0].message, "does not trust this side's certificate")) << rejected[0].message;
}

// -- a man in the middle -------------------------------------------------------------------

TEST_F(TlsTest, ARelayWithACertificateOfTheSameAuthorityAndNoTokenIsRefusedOnBothSides) {
  const endpoint where = listen(with(ours.issue("a")));
  const credentials relays = with(ours.issue("relay"));
  const tls_relay between(where, relays, relays);
  const auto result = connected(between.address(), with(ours.issue("b")));
  ASSERT_FALSE(result);
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  for (const fault& why : {result.error(), rejected[0]}) {
    EXPECT_EQ(why.kind, fault_kind::not_trusted);
    EXPECT_TRUE(has(why.message, "has another token, or a proxy between the two ends TLS")) << why.message;
  }
  EXPECT_TRUE(accepted.empty());
  EXPECT_TRUE(hellos.empty());
}

TEST_F(TlsTest, ARelayWithoutTheTokenGetsNothingFromThoseWhoGoByIt) {
  const endpoint where = listen(by_token());
  for (const credentials& relays : {by_token("a token that a relay made up"), with(ours.issue("relay"))}) {
    rejected.clear();
    const tls_relay between(where, relays, relays);
    const auto result = connected(between.address(), by_token());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, fault_kind::not_trusted);
    ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
    EXPECT_EQ(rejected[0].kind, fault_kind::not_trusted) << rejected[0].message;
    EXPECT_TRUE(hellos.empty());
  }
}

TEST_F(TlsTest, ProofsAreBoundToTheConnectionWhereTheTokenEncryptsToo) {
  const endpoint where = listen(by_token());
  const tls_relay between(where, by_token(), by_token());
  const auto result = connected(between.address(), by_token());
  ASSERT_FALSE(result);
  EXPECT_TRUE(has(result.error().message, "a proxy between the two ends TLS")) << result.error().message;
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_TRUE(has(rejected[0].message, "a proxy between the two ends TLS")) << rejected[0].message;
}

}  // namespace
}  // namespace troupe::links::tls_test
