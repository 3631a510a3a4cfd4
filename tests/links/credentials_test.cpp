#include "cluster/links/credentials.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "tests/links/certificates.hpp"

namespace troupe::links::credentials_test {
namespace {

/// Sets the token's environment variable during its lifetime.
class token_in_environment {
 public:
  explicit token_in_environment(const char* value) {
    value != nullptr ? ::setenv("TROUPE_TOKEN", value, 1) : ::unsetenv("TROUPE_TOKEN");
  }
  ~token_in_environment() { ::unsetenv("TROUPE_TOKEN"); }
  token_in_environment(const token_in_environment&) = delete;
  token_in_environment& operator=(const token_in_environment&) = delete;
};

const std::string token16 = "0123456789abcdef";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TokenTest, AFileGoesBeforeTheEnvironmentAndWhiteSpaceAroundIsLeftOut) {
  const secrets_folder folder;
  const token_in_environment other("from the environment");
  EXPECT_EQ(read_token(folder.write("token", " \t" + token16 + "\r\n\n")), token16);
  EXPECT_EQ(read_token(std::nullopt), "from the environment");
}

TEST(TokenTest, WithoutATokenBothWaysToGiveOneAreNamed) {
  const token_in_environment none(nullptr);
  const auto token = read_token(std::nullopt);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().kind, fault_kind::input);
  EXPECT_TRUE(has(token.error().message, "--token-file")) << token.error().message;
  EXPECT_TRUE(has(token.error().message, "TROUPE_TOKEN"));
}

TEST(TokenTest, ItsLengthHasLimits) {
  const secrets_folder folder;
  EXPECT_FALSE(read_token(folder.write("token", token16.substr(1))));
  EXPECT_FALSE(read_token(folder.write("token", "")));
  EXPECT_FALSE(read_token(folder.write("token", std::string(4097, 'x'))));
  EXPECT_FALSE(read_token(folder.write("token", std::string(100'000, 'x'))));
  EXPECT_EQ(read_token(folder.write("token", std::string(4096, 'x') + "\n")), std::string(4096, 'x'));
  const token_in_environment brief("short");
  const auto token = read_token(std::nullopt);
  ASSERT_FALSE(token);
  EXPECT_FALSE(has(token.error().message, "short")) << "a token was shown: " << token.error().message;
}

TEST(TokenTest, AFileThatOthersMayReadIsRefusedWithTheRemedy) {
  const secrets_folder folder;
  const std::string path = folder.write("token", token16);
  for (mode_t mode : {0640, 0604, 0644, 0620}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto token = read_token(path);
    ASSERT_FALSE(token) << std::oct << mode;
    EXPECT_TRUE(has(token.error().message, "chmod 600 " + path)) << token.error().message;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(read_token(path), token16);
}

TEST(TokenTest, WhatIsNoFileIsRefused) {
  const secrets_folder folder;
  EXPECT_TRUE(has(read_token(folder.path("none")).error().message, "No such file"));
  EXPECT_TRUE(has(read_token(folder.path("")).error().message, "regular file"));
}

TEST(TokenTest, RandomOnesDifferAndAreGood) {
  const std::string one = random_token();
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(one, random_token());
  const secrets_folder folder;
  EXPECT_EQ(read_token(folder.write("token", one)), one);
}

TEST(ProofTest, ItDependsOnTheTokenTheRoleBothNoncesAndTheChannel) {
  const nonce a = random_nonce();
  const nonce b = random_nonce();
  EXPECT_NE(a, b);
  channel_binding other_channel{};
  other_channel.back() = std::byte{1};
  const token_proof proof = prove(token16, "connector", a, b, {});
  EXPECT_TRUE(same_proof(proof, prove(token16, "connector", a, b, {})));
  EXPECT_FALSE(same_proof(proof, prove(token16 + "x", "connector", a, b, {})));
  EXPECT_FALSE(same_proof(proof, prove(token16, "acceptor", a, b, {})));
  EXPECT_FALSE(same_proof(proof, prove(token16, "connector", b, a, {})));
  EXPECT_FALSE(same_proof(proof, prove(token16, "connector", a, b, other_channel)));
  token_proof other = proof;
  other.back() ^= std::byte{1};
  EXPECT_FALSE(same_proof(proof, other));
}

TEST(ProofTest, ItIsHmacSha256OfTheRoleTheNoncesAndTheChannel) {
  nonce zeros{};
  nonce ones;
  ones.fill(std::byte{1});
  channel_binding twos;
  twos.fill(std::byte{2});
  const token_proof proof = prove("key", "role", zeros, ones, twos);
  // printf 'role' plus 32 bytes each of 0, 1 and 2, through `openssl dgst -sha256 -hmac key`.
  EXPECT_EQ(std::to_integer<int>(proof[0]), 0x32);
  EXPECT_EQ(std::to_integer<int>(proof[31]), 0xb7);
}

// The expected bytes come from Python's hashlib and hmac.

TEST(TokenKeyTest, ItIsScryptOfTheToken) {
  EXPECT_EQ(to_text(stretched_key("a token that tests share")),
            "ef2f793ed3659f0eeb38dd90a3074366a7b11c4c9479b3d4b3bcd12a2301180f");
  EXPECT_NE(stretched_key("another token of tests"), stretched_key("a token that tests share"));
}

TEST(TokenKeyTest, ThatOfARandomTokenIsHkdfOfIt) {
  EXPECT_EQ(to_text(expanded_key("a token that tests share")),
            "85e2595f389bba68abe22f354a7c5b9259565fc2760dc64b6672cac5492dce4d");
}

TEST(TokenKeyTest, ItsTextCanBeReadBackAndNoOtherText) {
  const token_key key = expanded_key(random_token());
  EXPECT_EQ(to_token_key(to_text(key)), key);
  EXPECT_EQ(to_token_key(""), std::nullopt);
  EXPECT_EQ(to_token_key(to_text(key).substr(2)), std::nullopt);
  EXPECT_EQ(to_token_key(std::string(64, 'x')), std::nullopt);
}

TEST(TokenTest, OneThatIsShortOrOfFewKindsOfCharactersIsWeak) {
  EXPECT_EQ(weakness_of(random_token()), std::nullopt);
  EXPECT_EQ(weakness_of("0123456789ab0123456789"), std::nullopt) << "22 characters, 12 different ones";
  const auto brief = weakness_of("0123456789ab012345678");
  ASSERT_TRUE(brief);
  EXPECT_TRUE(has(*brief, "has 21 characters and 12 different ones")) << *brief;
  EXPECT_FALSE(has(*brief, "0123")) << "a token was shown: " << *brief;
  const auto few = weakness_of("0123456789a0123456789a0123456789a");
  ASSERT_TRUE(few);
  EXPECT_TRUE(has(*few, "has 33 characters and 11 different ones")) << *few;
}

class TlsFilesTest : public testing::Test {
 protected:
  std::string fault(const tls_files& files) {
    const auto made = make_tls(files);
    if (made) return "";
    EXPECT_EQ(made.error().kind, fault_kind::input);
    return made.error().message;
  }

  const authority ours{"ours"};
  const secrets_folder folder;
};

TEST_F(TlsFilesTest, GoodOnesMakeAContext) { EXPECT_EQ(fault(ours.issue("a")), ""); }

TEST_F(TlsFilesTest, AMissingOneIsNamed) {
  for (std::string tls_files::*which : {&tls_files::certificate, &tls_files::key, &tls_files::ca}) {
    tls_files files = ours.issue("a");
    files.*which = folder.path("none");
    EXPECT_TRUE(has(fault(files), folder.path("none") + ": No such file")) << fault(files);
    files.*which = folder.path("");
    EXPECT_TRUE(has(fault(files), folder.path("") + ": ")) << fault(files);
    files.*which = folder.write("junk", "-----BEGIN JUNK-----\n");
    EXPECT_TRUE(has(fault(files), folder.path("junk") + ": holds no ")) << fault(files);
  }
}

TEST_F(TlsFilesTest, TheKeyOfAnotherCertificateIsTold) {
  tls_files files = ours.issue("a");
  files.key = ours.issue("b").key;
  EXPECT_EQ(fault(files), "--tls-key " + files.key + ": is not the key of the certificate in " + files.certificate);
}

TEST_F(TlsFilesTest, AKeyThatOthersMayReadIsRefusedWithTheRemedy) {
  const tls_files files = ours.issue("a");
  for (mode_t mode : {0640, 0604, 0644, 0620}) {
    ASSERT_EQ(::chmod(files.key.c_str(), mode), 0);
    EXPECT_TRUE(has(fault(files), "--tls-key " + files.key + ": others than its owner")) << fault(files);
    EXPECT_TRUE(has(fault(files), "chmod 600 " + files.key)) << fault(files);
  }
  ASSERT_EQ(::chmod(files.key.c_str(), 0400), 0);
  EXPECT_EQ(fault(files), "");
}

TEST_F(TlsFilesTest, AnExpiredCertificateIsToldAtOnce) {
  EXPECT_TRUE(has(fault(ours.issue("a", -60)), "a.crt: the certificate expired on ")) << fault(ours.issue("a", -60));
  const authority late("late", -60);
  tls_files files = ours.issue("a");
  files.ca = late.issue("b").ca;
  EXPECT_TRUE(has(fault(files), "late.ca: the certificate expired on ")) << fault(files);
}

}  // namespace
}  // namespace troupe::links::credentials_test
