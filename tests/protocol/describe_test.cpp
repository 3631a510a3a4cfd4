// Properties that follow from the descriptions of messages; and that the descriptions are complete.

#include "protocol/describe.hpp"

#include <gtest/gtest.h>

#include <string>

#include "protocol/message_content.hpp"
#include "protocol/message_types.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::describe_test {
namespace {

/// Converts to a field of any type. An optional is ambiguous, so it needs a type of its own.
struct any_value {
  template <class T>
  operator T() const;
};
struct any_optional {
  template <class T>
  operator std::optional<T>() const;
};

/// Returns the number of fields of a struct.
template <class T, class... Value>
consteval std::size_t count_of_fields() {
  if constexpr (requires { T{Value{}..., any_value{}}; })
    return count_of_fields<T, Value..., any_value>();
  else if constexpr (requires { T{Value{}..., any_optional{}}; })
    return count_of_fields<T, Value..., any_optional>();
  else
    return sizeof...(Value);
}

template <class T>
constexpr std::size_t undescribed = count_of_fields<T>() - boost::mp11::mp_size<fields_of<T>>::value;

TEST(Describe, NoFieldIsForgotten) {
  [&]<class... T>(boost::mp11::mp_list<T...>) {
    const auto check = []<class One>(std::type_identity<One>) {
      // Its `destination` on a device never leaves the process.
      constexpr std::size_t stays = std::is_same_v<One, msg::bag_lookup> ? 1 : 0;
      if constexpr (described<One>) {
        EXPECT_EQ(undescribed<One>, stays) << message_name_v<One>;
      }
    };
    (check(std::type_identity<T>()), ...);
  }(message_types());
}

struct with_forgotten {
  int named = 0;
  std::optional<double> forgotten;
  std::vector<msg::header> heads;
  std::string also_named;
};
BOOST_DESCRIBE_STRUCT(with_forgotten, (), (named, heads, also_named))

TEST(Describe, AForgottenFieldWouldBeNoticed) { EXPECT_EQ(undescribed<with_forgotten>, 1u); }

TEST(Describe, BulkFollowsFromTheFields) {
  EXPECT_TRUE(holds_blobs<msg::lookup>);           // blobs in structs in a list
  EXPECT_TRUE(holds_blobs<msg::rows>);             // tensors in a list
  EXPECT_TRUE(holds_blobs<msg::load_state_dict>);  // in pairs
  EXPECT_TRUE(holds_blobs<msg::train>);            // in a struct
  EXPECT_FALSE(holds_blobs<msg::optimizer_step>);
  EXPECT_FALSE(holds_blobs<msg::run_status>);
}

TEST(Describe, EveryBlobIsFoundInTheOrderOfTheFields) {
  const msg::blob a = some_indices(), b = some_indices(), c = some_indices();
  const msg::tensor last = some_tensor();
  const msg::gradient given{.head = some_header(), .tables = {{1, a, b, {}, last}, {2, c, {}, {}, {}}}};
  std::vector<const std::byte*> found;
  for_each_blob(given, [&](const msg::blob& one) { found.push_back(one.data()); });
  const std::byte* const none = nullptr;
  EXPECT_EQ(found, (std::vector{a.data(), b.data(), none, last.bytes.data(), c.data(), none, none, none}));
  EXPECT_EQ(weight_of(given), sizeof given + 3 * a.size() + last.bytes.size());
}

TEST(MessageTypes, AreFoundByNumberAndByName) {
  EXPECT_EQ(message_name_v<msg::gradient_norm>, "gradient_norm");
  EXPECT_EQ(message_name(caf::type_id_v<msg::gradient_norm>), "gradient_norm");
  EXPECT_EQ(message_name(caf::type_id_v<std::string>), "");
  EXPECT_TRUE(traits_by_id(caf::type_id_v<msg::gradient_norm>).ordered);
  EXPECT_TRUE(traits_by_name("gradient_norm").ordered);
  for (const auto& none : {traits_by_id(0), traits_by_id(UINT16_MAX), traits_by_name("no such message")}) {
    EXPECT_FALSE(none.ordered);
    EXPECT_EQ(none.via, plane::control);
    EXPECT_EQ(none.diff, comparable::whole);
  }
}

TEST(MessageTypes, AreInTheOrderOfTheirNumbers) {
  caf::type_id_t next = caf::id_block::troupe::begin;
  for (const message_type& one : all_message_types()) {
    EXPECT_EQ(one.number, next++);
    EXPECT_EQ("troupe::" + std::string(one.name), caf::to_string(caf::query_type_name(one.number)));
  }
  EXPECT_EQ(next, caf::id_block::troupe::end);
}

TEST(MessageTypes, OfBucketsAreThoseThatHaveOne) {
  EXPECT_TRUE(traits_v<msg::reduce>.by_bucket);
  EXPECT_TRUE(traits_by_name("bucket_sum").by_bucket);
  EXPECT_FALSE(traits_v<msg::rows>.by_bucket);
}

}  // namespace
}  // namespace troupe::protocol::describe_test
