// Every message survives serialization, and invalid bytes are refused before anything is allocated.

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <map>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/messages.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::messages_test {
namespace {

using bytes = caf::binary_serializer::container_type;

class Messages : public testing::Test {
 protected:
  template <class T>
  bytes save(const T& x) {
    bytes out;
    caf::binary_serializer sink(system_, out);
    EXPECT_TRUE(sink.apply(x)) << caf::to_string(sink.get_error());
    return out;
  }

  template <class T>
  bool load(const bytes& in, T& x) {
    caf::binary_deserializer source(system_, in);
    return source.apply(x) && source.remaining() == 0;
  }

  ~Messages() override {
    for (const auto& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  std::map<caf::type_id_t, caf::message> samples() {
    return samples_of_all_types([this](auto behavior) {
      auto handle = system_.spawn(behavior);
      spawned_.push_back(caf::actor_cast<caf::actor>(handle));
      return handle;
    });
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  std::vector<caf::actor> spawned_;
};

TEST_F(Messages, EveryTypeOfTheProtocolSurvivesTheWire) {
  const auto all = samples();
  for (caf::type_id_t id = caf::id_block::troupe::begin; id < caf::id_block::troupe::end; ++id) {
    const auto sample = all.find(id);
    ASSERT_NE(sample, all.end()) << "no sample of message type " << caf::query_type_name(id);
    const bytes sent = save(sample->second);
    caf::message received;
    ASSERT_TRUE(load(sent, received)) << caf::query_type_name(id);
    EXPECT_EQ(caf::to_string(received), caf::to_string(sample->second));
    EXPECT_EQ(save(received), sent) << caf::query_type_name(id);
  }
}

TEST_F(Messages, FieldsArriveWhereTheyBelong) {
  msg::gradient received;
  ASSERT_TRUE(
      load(save(msg::gradient{some_header(), 1, false, true, {{4, some_indices(), {}, {}, some_tensor()}}}), received));
  EXPECT_EQ(received.head.run, 7u);
  EXPECT_EQ(received.head.step, 12u);
  EXPECT_EQ(received.head.sequence, 99u);
  EXPECT_EQ(received.head.cause, (msg::message_id{2} << 48) | 41);
  EXPECT_FALSE(received.has_batch);
  EXPECT_TRUE(received.step);
  ASSERT_EQ(received.tables.size(), 1u);
  EXPECT_EQ(received.tables[0].module, 4u);
  EXPECT_EQ(received.tables[0].indices.as<std::int64_t>()[3], std::int64_t{1} << 40);
  EXPECT_EQ(received.tables[0].grad.rows, 2u);
  EXPECT_EQ(received.tables[0].grad.as<float>()[4], 1e-39F);
}

TEST_F(Messages, ABlobWithinAProcessIsSharedNotCopied) {
  auto numbers = std::make_shared<std::vector<float>>(1000, 1.0F);
  const float* where = numbers->data();
  caf::message sent = caf::make_message(msg::tensor(dtype::f32, 1000, 1, msg::blob::view(numbers, *numbers)));
  EXPECT_EQ(sent.get_as<msg::tensor>(0).as<float>().data(), where);
}

TEST_F(Messages, IdsNameSenderAndSequence) {
  msg::header_source source(1, 5);
  EXPECT_EQ(source.next(2, 77).sequence, 1u);
  const msg::header second = source.next(3, 78);
  EXPECT_EQ(msg::id_of(second), (msg::message_id{5} << 48) | 2);
  EXPECT_EQ(second.cause, 78u);
}

TEST_F(Messages, TruncatedOnesAreRefusedAtEveryLength) {
  const bytes whole = save(msg::gradient{some_header(), 1, true, true, {{4, some_indices(), {}, {}, some_tensor()}}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    msg::gradient received;
    EXPECT_FALSE(load(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)), received)) << length;
  }
}

/// The serialized form of a blob with a length of our choice, followed by 8 bytes.
bytes forged_blob(caf::actor_system& system, std::uint64_t length, std::uint64_t digest) {
  bytes out;
  caf::binary_serializer sink(system, out);
  EXPECT_TRUE(sink.value(length) && sink.value(digest) && sink.value(std::uint64_t{0x1122334455667788}));
  return out;
}

TEST_F(Messages, ABlobLongerThanItsMessageIsRefused) {
  for (std::uint64_t length : {std::uint64_t{9}, msg::blob::max_bytes, msg::blob::max_bytes + 1, ~std::uint64_t{0}}) {
    msg::blob received;
    EXPECT_FALSE(load(forged_blob(system_, length, 0), received)) << length;
    EXPECT_TRUE(received.empty());
  }
}

TEST_F(Messages, ABlobWithAFlippedBitIsRefused) {
  const bytes whole = save(some_indices());
  for (std::size_t i = 8; i < whole.size(); ++i) {
    bytes flipped = whole;
    flipped[i] = static_cast<caf::byte>(static_cast<unsigned char>(flipped[i]) ^ 0x10U);
    msg::blob received;
    EXPECT_FALSE(load(flipped, received)) << i;
  }
}

TEST_F(Messages, ATensorWhoseShapeDoesNotMatchItsBytesIsRefused) {
  for (auto [r, c] : {std::pair<std::uint64_t, std::uint64_t>{2, 4}, {0, 0}, {~std::uint64_t{0}, 2}, {1ULL << 62, 1}}) {
    msg::tensor wrong = some_tensor();
    wrong.rows = r;
    wrong.cols = c;
    msg::tensor received;
    EXPECT_FALSE(load(save(wrong), received)) << r << " x " << c;
  }
}

TEST_F(Messages, AnUnknownDtypeIsRefused) {
  bytes wire = save(dtype::u64);
  ASSERT_EQ(wire.size(), 1u);
  wire[0] = static_cast<caf::byte>(200);
  dtype received{};
  EXPECT_FALSE(load(wire, received));
}

TEST_F(Messages, ErrorsCarryTheirCodeAndContext) {
  const caf::error sent = make_failure(errc::bad_index, "table 2: index 100 is outside [0, 100)");
  caf::error received;
  ASSERT_TRUE(load(save(sent), received));
  EXPECT_EQ(received, errc::bad_index);
  EXPECT_EQ(describe(received), "table 2: index 100 is outside [0, 100)");
  EXPECT_FALSE(is_secondary(received));
  EXPECT_TRUE(is_secondary(caf::make_error(caf::sec::request_receiver_down)));
  EXPECT_EQ(describe(caf::make_error(caf::sec::request_receiver_down)), "the receiver has ended before it answered");
}

TEST_F(Messages, NoErrorIsDescribedAsThat) { EXPECT_EQ(describe({}), "no error"); }

TEST_F(Messages, EveryErrorCodeHasANameOfItsOwn) {
  for (int number = 0; number <= static_cast<int>(errc::device_failed); ++number) {
    errc code{};
    ASSERT_TRUE(from_integer(static_cast<std::uint8_t>(number), code));
    errc back{};
    ASSERT_TRUE(from_string(to_string(code), back));
    EXPECT_EQ(back, code);
  }
  errc code{};
  EXPECT_FALSE(from_integer(static_cast<std::uint8_t>(errc::device_failed) + 1, code));
}

}  // namespace
}  // namespace troupe::protocol::messages_test
