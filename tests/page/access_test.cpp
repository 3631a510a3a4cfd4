#include "page/access.hpp"

#include <gtest/gtest.h>

#include <set>

namespace troupe::page::access_test {
namespace {

TEST(Access, MakesTokensThatDiffer) {
  std::set<std::string> all;
  for (int i = 0; i < 100; ++i) all.insert(make_token());
  EXPECT_EQ(all.size(), 100u);
  for (const std::string& one : all) {
    EXPECT_EQ(one.size(), 32u);
    EXPECT_TRUE(is_token(one));
  }
}

TEST(Access, KnowsWhatATokenIs) {
  EXPECT_TRUE(is_token("aB3-_678"));
  EXPECT_FALSE(is_token("1234567")) << "too short";
  EXPECT_FALSE(is_token("12345678\r\nX: y"));
  EXPECT_FALSE(is_token("1234567;"));
  EXPECT_FALSE(is_token(std::string(129, 'a')));
}

TEST(Access, ComparesWholeTokens) {
  const access who("secret-token", "127.0.0.1");
  EXPECT_TRUE(who.is_right("secret-token"));
  EXPECT_FALSE(who.is_right("secret-tokeN"));
  EXPECT_FALSE(who.is_right("secret-toke"));
  EXPECT_FALSE(who.is_right("secret-token-secret-token"));
  EXPECT_FALSE(who.is_right("secret-tokensecret-token"));
  EXPECT_FALSE(who.is_right(""));
}

TEST(Access, TellsPagesOfOtherPortsApart) {
  const access who("secret-token", "127.0.0.1");
  const std::string field = who.cookie(80);
  const std::string mine = field.substr(0, field.find(';'));
  EXPECT_EQ(field, mine + "; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_EQ(mine.find("troupe_page_80="), 0U);
  EXPECT_TRUE(who.is_authorized("", "a=b; " + mine, 80));
  EXPECT_FALSE(who.is_authorized("", mine, 81));
  EXPECT_TRUE(who.is_authorized("", "troupe_page_80=of-an-older-run; " + mine, 80));
}

TEST(Access, TheCookieIsNotTheToken) {
  const access who("secret-token", "127.0.0.1");
  EXPECT_EQ(who.cookie(80).find("secret-token"), std::string::npos);
  EXPECT_FALSE(who.is_authorized("", "troupe_page_80=secret-token", 80));
  EXPECT_NE(access("secret-token", "127.0.0.1").cookie(80), who.cookie(80)) << "made anew for each server";
}

TEST(Access, TakesTheNameThatItWasGiven) {
  const access who("secret-token", "node7.lab");
  EXPECT_TRUE(who.is_for_us("NODE7.lab:9000"));
  EXPECT_TRUE(who.is_for_us("127.0.0.1:9000"));
  EXPECT_FALSE(who.is_for_us("node8.lab"));
}

TEST(Access, TakesAnyAddressWhereItListensOnAll) {
  const access who("secret-token", "0.0.0.0");
  EXPECT_TRUE(who.is_for_us("192.168.1.7:80"));
  EXPECT_TRUE(who.is_for_us("[fe80::1]:80"));
  EXPECT_FALSE(who.is_for_us("evil.example"));
}

}  // namespace
}  // namespace troupe::page::access_test
