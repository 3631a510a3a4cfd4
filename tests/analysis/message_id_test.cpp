#include "trace/analysis/message_id.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::message_id_test {
namespace {

class MessageId : public testing::Test {
 protected:
  MessageId() {
    for (const std::uint64_t sequence : {12, 417, 500}) {
      made.handled("lookup", made.trainer(0), made.server(1), {}, {.sequence = sequence});
    }
    made.handled("rows", made.server(1), made.trainer(0), {}, {.sequence = 33});
    made.handled("train", trace::made_recording::master, made.trainer(0), {}, {.sequence = 3});
    made.frame(trace::kind::sent, "bucket_share", 0x8001, 1, 0, {.sequence = 9});
  }

  result<std::uint64_t> find(std::string_view text) { return find_message(causality(made.done()), text); }

  trace::made_recording made{2, 1};
};

TEST_F(MessageId, IsReadAsItIsShownAndShorter) {
  const auto id = trace::made_id(made.trainer(0), 417);
  for (const char* text : {"trainer 0 #417", "trainer-0:417", "trainer 0:417", "Trainer-0 #417", "t0:417", "T0#417"}) {
    EXPECT_EQ(find(text), id) << text;
  }
  EXPECT_EQ(find(std::to_string(id)), id);
  EXPECT_EQ(find("s1:33"), trace::made_id(made.server(1), 33));
  EXPECT_EQ(find("master #3"), 3U);
  EXPECT_EQ(find("m:3"), 3U);
  EXPECT_EQ(find("actor 32769 #9"), trace::made_id(0x8001, 9));
}

TEST_F(MessageId, ThatIsNotThereIsAnErrorThatSaysWhatIs) {
  EXPECT_EQ(find("t0:418").error().message,
            "trainer 0 #418: of trainer 0 the recording holds messages between #12 and #500, not this one");
  EXPECT_EQ(find("s0:1").error().message,
            "server 0 #1: the recording holds messages of master, server 1, trainer 0, actor 32769");
  EXPECT_EQ(
      find("trainer 7 #1").error().message,
      "'trainer 7 #1': there is no actor 'trainer 7'; the recording holds messages of master, server 1, trainer 0, "
      "actor 32769");
}

TEST_F(MessageId, ThatIsNoneIsRefused) {
  for (const char* text : {"", "trainer 0", "trainer 0 #", "#", "trainer 0 #x", "t0:-1", "t0:281474976710656",
                           "99999999999999999999999"}) {
    const auto found = find(text);
    ASSERT_FALSE(found) << text;
    EXPECT_NE(found.error().message.find("names no message"), std::string::npos) << found.error().message;
  }
  EXPECT_FALSE(find(":417"));
}

TEST(MessageIdInAddresses, GoesThereAndBack) {
  EXPECT_EQ(write_id(trace::made_id(0xffff, 0xffff'ffff'ffff)), "65535.281474976710655");
  EXPECT_EQ(read_id("65535.281474976710655"), trace::made_id(0xffff, 0xffff'ffff'ffff));
  for (const char* wrong : {"", ".", "1", "1.", ".1", "65536.1", "1.281474976710656", "-1.2", "1.2.3", "1.x"})
    EXPECT_EQ(read_id(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace troupe::analysis::message_id_test
