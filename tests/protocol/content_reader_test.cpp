#include "protocol/content_reader.hpp"

#include <gtest/gtest.h>

#include "protocol/message_content.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::content_reader_test {
namespace {

class ContentReader : public testing::Test {
 protected:
  /// Returns the recorded content of this type's sample.
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
    // Missing or extra bytes are detected.
    trace::content longer = before;
    longer.fields += '\0';
    EXPECT_FALSE(read_content_into(longer, made));
    EXPECT_FALSE(is_kept(longer));
    if (!before.fields.empty()) {
      trace::content shorter = before;
      // Without the byte of an added truth value, it would be a valid older version.
      shorter.fields.resize(shorter.fields.size() - (traits_v<Message>.added > 0 ? 2 : 1));
      EXPECT_FALSE(read_content_into(shorter, made));
    }
    if constexpr (traits_v<Message>.added >
                  traits_v<Message>.unrecorded) {  // the content that an older version recorded
      Message sample = samples_.at(caf::type_id_v<Message>).template get_as<Message>(0);
      trace::content older;
      content_writer writer(older, true);
      ASSERT_TRUE(inspect_first<traits_v<Message>.added>(writer, sample));
      older.fields = std::move(writer.fields);
      Message read;
      EXPECT_TRUE(read_content_into(older, read));
    }
    if (!before.parts.empty()) {
      trace::content fewer = before;
      fewer.parts.pop_back();
      EXPECT_FALSE(read_content_into(fewer, made));
    }
  }

 private:
  std::map<caf::type_id_t, caf::message> samples_ = samples_of<message_types>(nobody);
};

TEST_F(ContentReader, MakesEveryKindOfMessageAgain) {
  const auto check = [this]<class T>(std::type_identity<T>) {
    if constexpr (requires(T x) { x.head; }) expect_same<T>();
  };
  [&]<class... T>(boost::mp11::mp_list<T...>) { (check(std::type_identity<T>()), ...); }(message_types());
}

TEST_F(ContentReader, RefusesAListLongerThanWhatIsThere) {
  trace::content wrong = kept<msg::parameter_list>();
  wrong.fields.replace(0, 4, "\xff\xff\xff\x7f");
  msg::parameter_list made;
  EXPECT_FALSE(read_content_into(wrong, made));
  EXPECT_TRUE(made.items.empty());
}

TEST_F(ContentReader, RefusesATensorThatIsNone) {
  trace::content wrong = kept<msg::reduce>();
  wrong.parts.at(0).type = "float128";
  msg::reduce made;
  EXPECT_FALSE(read_content_into(wrong, made));
  wrong = kept<msg::reduce>();
  wrong.parts.at(0).rows = 1'000'000;
  EXPECT_FALSE(read_content_into(wrong, made));
}

}  // namespace
}  // namespace troupe::protocol::content_reader_test
