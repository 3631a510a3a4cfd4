// What a link promises to those who send and receive frames.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/links/stage.hpp"

namespace troupe {
namespace {

class LinkTest : public LinkStage {
 protected:
  void make_running(const credentials& mine) {
    std::tie(here, there) = make_ends(mine);
    start(*here);
    start(*there);
  }

  const credentials plain{good_token, nullptr};
  std::unique_ptr<link_end> here;
  std::unique_ptr<link_end> there;
};

TEST_F(LinkTest, a_frame_arrives_with_its_kind_and_its_pieces_in_one_aligned_body) {
  make_running(plain);
  here->wire->send(7, {to_piece("one "), to_piece(""), to_piece("two")});
  ASSERT_TRUE(wait([&] { return there->frames.size() == 1; }));
  EXPECT_EQ(there->frames[0].kind, 7);
  EXPECT_EQ(to_text(there->frames[0]), "one two");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there->frames[0].memory.get()) % 64, 0U);
}

TEST_F(LinkTest, what_is_sent_before_goodbye_arrives_and_then_the_end_without_a_fault) {
  make_running(plain);
  for (int i = 0; i < 100; ++i) here->wire->send(2, {to_piece(std::string(100'000, 'x'))});
  here->wire->close();
  ASSERT_TRUE(wait([&] { return there->end_count == 1; }));
  EXPECT_EQ(there->frames.size(), 100U);
  EXPECT_FALSE(there->fault);
  EXPECT_EQ(here->end_count, 0);
}

}  // namespace
}  // namespace troupe
