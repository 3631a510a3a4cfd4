// Messages have the form that an earlier version gave them: on control connections, on data links, and as text.
// recorded_messages.txt has that version's form of one message of each type. A message that changes on purpose loses
// its entry there; a new one needs none.

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <caf/detail/meta_object.hpp>
#include <charconv>
#include <fstream>
#include <map>
#include <vector>

#include "protocol/message_frame.hpp"
#include "protocol/message_types.hpp"
#include "protocol/schema.hpp"

namespace troupe::protocol::recorded_messages_test {
namespace {

struct recorded_message {
  caf::type_id_t number = 0;
  std::string name;
  std::map<std::string, std::string> lines;
};

std::vector<recorded_message> recorded() {
  std::ifstream file(TROUPE_RECORDED_MESSAGES);
  std::vector<recorded_message> all;
  for (recorded_message one; file >> one.number >> one.name; all.push_back(one)) {
    for (const char* expected : {"form", "text", "sent", "frame"}) {
      std::string word;
      file >> word >> std::ws;
      EXPECT_EQ(word, expected) << one.name;
      std::getline(file, one.lines[word]);
    }
  }
  return all;
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

/// Deserializes a message from a control connection.
caf::message received(caf::type_id_t type, const std::vector<std::byte>& bytes, caf::actor_system& system) {
  caf::message_builder builder;
  const auto add = [&]<class T>(std::type_identity<T>) {
    if (caf::type_id_v<T> != type) return;
    T one{};
    caf::binary_deserializer source(system, bytes.data(), bytes.size());
    EXPECT_TRUE(source.apply(one) && source.remaining() == 0);
    builder.append(std::move(one));
  };
  [&]<class... T>(boost::mp11::mp_list<T...>) { (add(std::type_identity<T>()), ...); }(message_types());
  return builder.to_message();
}

std::vector<std::byte> sent(const caf::message& content, caf::actor_system& system) {
  caf::binary_serializer::container_type out;
  caf::binary_serializer sink(system, out);
  const auto* data = static_cast<const caf::detail::message_data&>(content.cdata()).at(0);
  EXPECT_TRUE(caf::detail::global_meta_object(content.type_at(0))->save_binary(sink, data));
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

class RecordedMessages : public testing::Test {
 protected:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
};

TEST_F(RecordedMessages, HaveTheFormThatTheyHad) {
  const auto schema = message_schema();
  const auto all = recorded();
  ASSERT_EQ(all.size(), 51u);  // of that version: without errc, which travels in an error, and without those that have
                               // changed
  for (const recorded_message& one : all) {
    SCOPED_TRACE(one.name);
    const std::size_t place = one.number - caf::id_block::troupe::begin;
    ASSERT_LT(place, schema.size());
    EXPECT_EQ(schema[place].first, one.name);
    EXPECT_EQ(schema[place].second, one.lines.at("form"));
  }
}

TEST_F(RecordedMessages, AreReadFromControlConnections) {
  for (const recorded_message& one : recorded()) {
    SCOPED_TRACE(one.name);
    const auto bytes = bytes_of(one.lines.at("sent"));
    const caf::message content = received(one.number, bytes, system_);
    EXPECT_EQ(caf::to_string(content), one.lines.at("text"));
    EXPECT_EQ(sent(content, system_), bytes);
  }
}

TEST_F(RecordedMessages, AreReadFromDataLinks) {
  std::size_t read = 0;
  for (const recorded_message& one : recorded()) {
    SCOPED_TRACE(one.name);
    const bool is_framed = one.lines.at("frame") != "-";
    EXPECT_EQ(is_framed, traits_by_id(one.number).via == plane::data);
    if (!is_framed) continue;
    const msg::blob frame = msg::blob::own(bytes_of(one.lines.at("frame")));
    const auto message = from_frame(frame);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->first.request, 0x1122334455667788u);
    EXPECT_EQ(message->first.actor, 5u);
    EXPECT_EQ(caf::to_string(message->second), one.lines.at("text"));
    std::vector<std::byte> again;
    const auto parts = to_frame(message->first, message->second);
    ASSERT_TRUE(parts);
    for (const msg::blob& part : *parts) again.insert(again.end(), part.data(), part.data() + part.size());
    EXPECT_EQ(msg::blob::own(again), frame);
    ++read;
  }
  EXPECT_EQ(read, 7u);
}

}  // namespace
}  // namespace troupe::protocol::recorded_messages_test
