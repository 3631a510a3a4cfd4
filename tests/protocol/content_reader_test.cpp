#include "protocol/content_reader.hpp"

#include <gtest/gtest.h>

#include "protocol/message_content.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::content_reader_test {
namespace {

class ContentReader : public testing::Test {
 protected:
  /// What was kept of the sample of this type.
  template <class Message>
  trace::content kept() const {
    const caf::message& sample = samples_.at(caf::type_id_v<Message>);
    return content_of(sample.get_as<Message>(0), true);
  }

  template <class Message>
  void expect_same() const {
    SCOPED_TRACE(caf::to_string(caf::query_type_name(caf::type_id_v<Message>)));
    const trace::content before = kept<Message>();
    ASSERT_TRUE(is_kept(before));
    Message made;
    ASSERT_TRUE(read_content_into(before, made));
    const trace::content after = content_of(made, true);
    EXPECT_EQ(after.fields, before.fields);
    ASSERT_EQ(after.parts.size(), before.parts.size());
    for (std::size_t i = 0; i < after.parts.size(); ++i) {
      EXPECT_EQ(after.parts[i].name, before.parts[i].name);
      EXPECT_EQ(after.parts[i].type, before.parts[i].type);
      EXPECT_EQ(after.parts[i].rows, before.parts[i].rows);
      EXPECT_EQ(after.parts[i].bytes, before.parts[i].bytes);
    }
    // Anything that is missing or left over is noticed.
    trace::content longer = before;
    longer.fields += '\0';
    EXPECT_FALSE(read_content_into(longer, made));
    EXPECT_FALSE(is_kept(longer));
    if (!before.fields.empty()) {
      trace::content shorter = before;
      shorter.fields.pop_back();
      EXPECT_FALSE(read_content_into(shorter, made));
    }
    if (!before.parts.empty()) {
      trace::content fewer = before;
      fewer.parts.pop_back();
      EXPECT_FALSE(read_content_into(fewer, made));
    }
  }

 private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  std::map<caf::type_id_t, caf::message> samples_ =
      samples_of_all_types([this](auto behavior) { return system_.spawn(behavior); });
};

TEST_F(ContentReader, MakesEveryKindOfMessageAgain) {
  expect_same<instantiate>();
  expect_same<lookup>();
  expect_same<rows>();
  expect_same<gradient>();
  expect_same<gradient_norm>();
  expect_same<squared_norm>();
  expect_same<optimizer_step>();
  expect_same<committed>();
  expect_same<state_dict>();
  expect_same<module_state>();
  expect_same<load_state_dict>();
  expect_same<row_digests>();
  expect_same<reduce>();
  expect_same<reduced>();
  expect_same<train>();
  expect_same<trained>();
  expect_same<epoch_report>();
  expect_same<evaluation>();
  expect_same<save_dense>();
  expect_same<run_result>();
}

TEST_F(ContentReader, RefusesATensorThatIsNone) {
  trace::content wrong = kept<reduce>();
  wrong.parts.at(0).type = "float128";
  reduce made;
  EXPECT_FALSE(read_content_into(wrong, made));
  wrong = kept<reduce>();
  wrong.parts.at(0).rows = 1'000'000;
  EXPECT_FALSE(read_content_into(wrong, made));
}

}  // namespace
}  // namespace troupe::content_reader_test
