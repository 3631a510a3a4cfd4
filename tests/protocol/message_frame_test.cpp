// Every message of a training step survives a data link's frames, and other bytes are refused.

#include "protocol/message_frame.hpp"

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <vector>

#include "protocol/errors.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::message_frame_test {
namespace {

constexpr std::size_t alignment = 64;
const envelope somewhere{0x1122334455667788, 5};

/// Filled-in samples, one or two of each type that travels over data links.
std::vector<caf::message> samples() {
  std::vector<caf::message> all;
  for (const auto& [type, content] : samples_of<link_types>(nobody)) all.push_back(content);
  all.push_back(
      caf::make_message(msg::lookup{.head = some_header(), .tables = {{5, {}, some_indices(), some_indices()}}}));
  all.push_back(caf::make_message(msg::lookup{.head = some_header(), .tables = {}}));
  all.push_back(caf::make_message(msg::rows{some_header(), {some_tensor(), msg::tensor(), some_tensor()}, 1}));
  return all;
}

std::string type_of(const caf::message& content) { return caf::to_string(caf::query_type_name(content.type_at(0))); }

/// The parts as the receiver has them: in one block of memory, aligned like a link's.
msg::blob received(const std::vector<msg::blob>& parts) {
  std::size_t size = 0;
  for (const msg::blob& part : parts) size += part.size();
  const std::size_t whole = (size + alignment) / alignment * alignment;
  std::byte* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  const std::shared_ptr<const void> owner(memory, [](std::byte* bytes) { std::free(bytes); });
  std::byte* at = memory;
  for (const msg::blob& part : parts) at = std::copy_n(part.data(), part.size(), at);
  return {owner, memory, size};
}

msg::blob frame_of(const caf::message& content) {
  const auto parts = to_frame(somewhere, content);
  EXPECT_TRUE(parts) << type_of(content);
  return parts ? received(*parts) : msg::blob();
}

msg::blob failure_frame() { return received(to_failure_frame(somewhere, make_failure(errc::bad_index, "index 7"))); }

/// Copies into memory of exactly that size, so that sanitizers detect reads beyond it.
msg::blob copy_of(const msg::blob& whole, std::size_t size) {
  return msg::blob::own(std::vector<std::byte>(whole.data(), whole.data() + size));
}

/// Inverts some bits of one byte.
msg::blob damaged(const msg::blob& whole, std::size_t at, unsigned bits) {
  std::vector<std::byte> bytes(whole.data(), whole.data() + whole.size());
  bytes[at] ^= static_cast<std::byte>(bits);
  return msg::blob::own(std::move(bytes));
}

TEST(MessageFrame, EveryMessageOfALinkSurvivesIt) {
  for (const caf::message& sent : samples()) {
    const msg::blob frame = frame_of(sent);
    const auto read = from_frame(frame);
    ASSERT_TRUE(read) << type_of(sent) << ": " << describe(read.error());
    EXPECT_EQ(read->first.request, somewhere.request);
    EXPECT_EQ(read->first.actor, somewhere.actor);
    EXPECT_EQ(caf::to_string(read->second), caf::to_string(sent));
    EXPECT_EQ(frame_of(read->second), frame) << type_of(sent);
  }
}

TEST(MessageFrame, BulkBytesArePointedAtWhereTheyLieAndBeginAtCacheLines) {
  const msg::blob frame = frame_of(caf::make_message(msg::rows{some_header(), {some_tensor(), some_tensor()}, 1}));
  const auto read = from_frame(frame);
  ASSERT_TRUE(read);
  for (const msg::tensor& one : read->second.get_as<msg::rows>(0).tables) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.bytes.data()) % alignment, 0u);
    EXPECT_GE(one.bytes.data(), frame.data());
    EXPECT_LE(one.bytes.data() + one.bytes.size(), frame.data() + frame.size());
    EXPECT_EQ(one.as<float>()[4], 1e-39F);
  }
}

TEST(MessageFrame, SendingCopiesNoBulkBytes) {
  const msg::tensor sent = some_tensor();
  const auto parts = to_frame(somewhere, caf::make_message(msg::bucket_sum{some_header(), 1, 2, false, sent}));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->back().data(), sent.bytes.data());
}

TEST(MessageFrame, OtherMessagesDoNotTravelSo) {
  for (const caf::message& other : {caf::make_message(msg::stop{some_header()}), caf::make_message(some_indices()),
                                    caf::make_message(), caf::make_message(msg::committed{}, msg::committed{})}) {
    EXPECT_FALSE(to_frame(somewhere, other));
    EXPECT_FALSE(head_of(other));
  }
}

TEST(MessageFrame, ItsHeaderIsKnownWithoutTheRest) {
  for (const caf::message& sent : samples()) {
    const auto head = head_of(sent);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->first, sent.type_at(0));
    EXPECT_EQ(head->second.step, 12u);
  }
}

TEST(MessageFrame, TruncatedOnesAreRefusedAtEveryLength) {
  for (const caf::message& sent : samples()) {
    const msg::blob whole = frame_of(sent);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto read = from_frame(copy_of(whole, size));
      ASSERT_FALSE(read) << type_of(sent) << " of " << size << " bytes";
      EXPECT_EQ(read.error(), errc::malformed);
    }
  }
}

TEST(MessageFrame, LongerOnesAreRefused) {
  for (const caf::message& sent : samples()) {
    std::vector<msg::blob> parts = *to_frame(somewhere, sent);
    parts.push_back(msg::blob::own(std::vector<std::byte>(1)));
    EXPECT_FALSE(from_frame(received(parts))) << type_of(sent);
  }
}

// A flipped bit may turn a message into another valid one, but nothing else.
TEST(MessageFrame, DamagedOnesAreRefusedOrOtherMessages) {
  std::size_t refused = 0;
  for (const caf::message& sent : samples()) {
    const msg::blob whole = frame_of(sent);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const unsigned bits : {0x01U, 0x10U, 0x80U, 0xffU}) {
        const auto read = from_frame(damaged(whole, at, bits));
        if (read) {
          EXPECT_TRUE(to_frame(read->first, read->second)) << type_of(sent) << ", byte " << at;
        } else {
          EXPECT_EQ(read.error(), errc::malformed);
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 0u);
}

TEST(MessageFrame, ListsLongerThanTheirFrameAreRefusedBeforeAnythingIsAllocated) {
  const msg::blob whole = frame_of(caf::make_message(msg::rows{some_header(), {}, 1}));
  // The list's length precedes the last field.
  const std::size_t at = whole.size() - 2 * sizeof(std::uint32_t);
  EXPECT_FALSE(from_frame(damaged(damaged(whole, at + 3, 0xff), at + 2, 0xff)));
  const std::size_t blobs_at = 20;
  EXPECT_FALSE(from_frame(damaged(damaged(whole, blobs_at + 3, 0xff), blobs_at + 2, 0xff)));
}

TEST(MessageFrame, FailuresSurviveItToo) {
  const auto read = from_failure_frame(failure_frame());
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(read->first.request, somewhere.request);
  EXPECT_EQ(read->second, errc::bad_index);
  EXPECT_EQ(describe(read->second), "index 7");
  const auto foreign =
      from_failure_frame(received(to_failure_frame(somewhere, caf::make_error(caf::sec::runtime_error, "words"))));
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->second, errc::exception);
  EXPECT_NE(describe(foreign->second).find("words"), std::string::npos);

  // The receiver of a request may be gone before the request arrives: that is not why a run ends.
  for (const caf::sec gone : {caf::sec::request_receiver_down, caf::sec::broken_promise}) {
    const auto told = from_failure_frame(received(to_failure_frame(somewhere, caf::make_error(gone))));
    ASSERT_TRUE(told);
    EXPECT_TRUE(is_secondary(told->second));
    EXPECT_EQ(describe(told->second), describe(caf::make_error(gone)));
  }
}

TEST(MessageFrame, FailuresThatAreNoneAreRefused) {
  const msg::blob whole = failure_frame();
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(from_failure_frame(copy_of(whole, size)));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    const auto read = from_failure_frame(damaged(whole, at, 0xff));
    EXPECT_TRUE(!read || read->second) << "byte " << at;
  }
  EXPECT_FALSE(from_failure_frame(frame_of(caf::make_message(msg::committed{some_header()}))));
  EXPECT_FALSE(from_frame(whole));
}

}  // namespace
}  // namespace troupe::protocol::message_frame_test
