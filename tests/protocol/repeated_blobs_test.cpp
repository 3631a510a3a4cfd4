// A lookup's bags travel once over a link: its gradient refers to them, and the receiver uses the bags that it has
// kept.

#include "protocol/repeated_blobs.hpp"

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <cstring>
#include <numeric>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/message_frame.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::repeated_blobs_test {
namespace {

constexpr std::size_t many = 1000;  // the numbers of a blob that is large enough to keep
const envelope somewhere{1, 5};

msg::blob numbers_from(std::int64_t first, std::size_t count = many) {
  std::vector<std::int64_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return msg::blob::own(std::move(all));
}

caf::message lookup_of(const msg::blob& indices, const msg::blob& offsets = {}) {
  return caf::make_message(msg::lookup{.head = some_header(), .tables = {{5, indices, offsets, {}}}});
}

caf::message gradient_of(const msg::blob& indices, const msg::blob& offsets = {}) {
  msg::gradient made;
  made.head = some_header();
  made.tables.push_back({5, indices, offsets, {}, some_tensor()});
  return caf::make_message(std::move(made));
}

const msg::bag_gradient& table_of(const caf::message& gradient) { return gradient.get_as<msg::gradient>(0).tables[0]; }

/// Both ends of a link.
class RepeatedBlobs : public testing::Test {
 protected:
  /// Returns the body of a message's frame.
  msg::blob send(const caf::message& content) {
    const auto parts = to_frame(somewhere, content, {.sent = &sent_});
    EXPECT_TRUE(parts);
    std::vector<std::byte> all;
    for (const msg::blob& part : *parts) all.insert(all.end(), part.data(), part.data() + part.size());
    return msg::blob::own(std::move(all));
  }

  caf::message receive(const msg::blob& body) {
    auto read = from_frame(body, &kept_);
    EXPECT_TRUE(read) << describe(read.error());
    return read ? std::move(read->second) : caf::message();
  }

  sent_blobs sent_;
  kept_blobs kept_;
};

TEST_F(RepeatedBlobs, TravelWithTheFirstMessageOnly) {
  const msg::blob indices = numbers_from(0);
  const msg::blob offsets = numbers_from(7);
  const msg::blob first = send(lookup_of(indices, offsets));
  const msg::blob second = send(gradient_of(indices, offsets));
  EXPECT_GT(first.size(), 2 * many * sizeof(std::int64_t));
  EXPECT_LT(second.size(), 300u);

  const caf::message lookup = receive(first);
  const caf::message gradient = receive(second);
  EXPECT_EQ(table_of(gradient).indices, indices);
  EXPECT_EQ(table_of(gradient).offsets, offsets);
  EXPECT_TRUE(table_of(gradient).weights.empty());
  EXPECT_EQ(table_of(gradient).grad.as<float>()[2], some_tensor().as<float>()[2]);
  EXPECT_EQ(table_of(gradient).indices.owner(), lookup.get_as<msg::lookup>(0).tables[0].indices.owner())
      << "receivers tell bags that they know by their memory";
}

TEST_F(RepeatedBlobs, AreDroppedOnceTheSenderHasNone) {
  receive(send(lookup_of(numbers_from(0))));
  EXPECT_EQ(kept_.size(), 1u);
  const msg::blob next = numbers_from(1);
  receive(send(lookup_of(next)));
  EXPECT_EQ(kept_.size(), 1u) << "the next lookup's instead";
  EXPECT_EQ(table_of(receive(send(gradient_of(next)))).indices, next);
}

TEST_F(RepeatedBlobs, OtherBytesInTheSameMemoryTravel) {
  auto memory = std::make_shared<std::vector<std::int64_t>>(many, 1);
  const std::int64_t* const place = memory->data();
  // Two successive owners of one block of memory.
  const auto as_blob = [&] {
    return msg::blob(std::shared_ptr<const void>(place, [](const void*) {}), place, many * sizeof(std::int64_t));
  };
  receive(send(lookup_of(as_blob())));
  memory->assign(many, 2);
  EXPECT_EQ(table_of(receive(send(gradient_of(as_blob())))).indices.as<std::int64_t>()[0], 2);

  memory->assign(many, 3);
  const msg::blob third = as_blob();
  receive(send(lookup_of(third)));
  EXPECT_EQ(table_of(receive(send(gradient_of(third.part(0, third.size() - 8))))).indices.size(), third.size() - 8);
  EXPECT_EQ(table_of(receive(send(gradient_of(third)))).indices.as<std::int64_t>()[0], 3);
}

TEST_F(RepeatedBlobs, BlobsOfOtherMessagesAndSmallOnesAreNotKept) {
  const msg::blob bags = numbers_from(0);
  receive(send(gradient_of(bags)));
  const msg::blob small = numbers_from(0, 8);
  receive(send(lookup_of(small)));
  EXPECT_EQ(kept_.size(), 0u);
  EXPECT_EQ(table_of(receive(send(gradient_of(small)))).indices, small);
}

TEST_F(RepeatedBlobs, StayUnknownIfTheMessageIsTooLong) {
  const msg::blob bags = numbers_from(0);
  ASSERT_TRUE(to_frame(somewhere, lookup_of(bags), {.sent = &sent_, .bytes_max = bags.size()}));  // never sent
  EXPECT_EQ(table_of(receive(send(gradient_of(bags)))).indices, bags);
}

TEST_F(RepeatedBlobs, LiveUntilTheFrameThatNamesThemIsSent) {
  std::weak_ptr<const void> owner;
  std::optional<std::vector<msg::blob>> waiting;
  {
    const msg::blob bags = numbers_from(0);
    owner = bags.owner();
    receive(send(lookup_of(bags)));
    waiting = to_frame(somewhere, gradient_of(bags), {.sent = &sent_});
  }
  EXPECT_FALSE(owner.expired());
  receive(send(lookup_of(numbers_from(1))));
  EXPECT_EQ(kept_.size(), 2u) << "the frame that waits still names it";
  waiting.reset();
  receive(send(lookup_of(numbers_from(2))));
  EXPECT_EQ(kept_.size(), 1u);
}

/// A lookup of `blobs` blobs, each of the least size that is kept.
msg::lookup lookup_of_many(std::size_t blobs) {
  const msg::blob numbers = numbers_from(0, blobs + kept_blob_bytes_min / sizeof(std::int64_t));
  msg::lookup wanted;
  wanted.head = some_header();
  for (std::size_t i = 0; i < blobs; ++i)
    wanted.tables.push_back({i, numbers.part(8 * i, kept_blob_bytes_min), {}, {}});
  return wanted;
}

TEST_F(RepeatedBlobs, NoMoreThanASenderKnowsAreKept) {
  const msg::lookup wanted = lookup_of_many(sent_blobs_max + 1);
  const caf::message read = receive(send(caf::make_message(wanted)));
  EXPECT_EQ(kept_.size(), sent_blobs_max);
  EXPECT_EQ(read.get_as<msg::lookup>(0).tables.back().indices, wanted.tables.back().indices);
}

TEST_F(RepeatedBlobs, AsManyAsASenderKnowsAreReplacedAtOnce) {
  receive(send(caf::make_message(lookup_of_many(sent_blobs_max))));
  const msg::lookup next = lookup_of_many(sent_blobs_max);
  receive(send(caf::make_message(next)));
  EXPECT_EQ(kept_.size(), sent_blobs_max);
}

TEST_F(RepeatedBlobs, FramesThatNoSenderWritesAreRefused) {
  msg::blob bags = numbers_from(0);
  const msg::blob lookup = send(lookup_of(bags));
  const msg::blob gradient = send(gradient_of(bags));
  const auto refused = [](const msg::blob& body, kept_blobs* kept) {
    const auto read = from_frame(body, kept);
    return !read && read.error() == errc::malformed;
  };
  EXPECT_TRUE(refused(gradient, &kept_)) << "it was not kept";
  EXPECT_TRUE(refused(lookup, nullptr)) << "who keeps nothing";
  receive(lookup);
  EXPECT_TRUE(refused(lookup, &kept_)) << "the same number twice";
  EXPECT_TRUE(refused(gradient, nullptr));
  EXPECT_EQ(table_of(receive(gradient)).indices, bags);

  // The last word of the entries, the number of a blob to keep, is missing.
  std::vector<std::byte> cut(lookup.data(), lookup.data() + lookup.size());
  std::uint32_t entries = 0;
  std::memcpy(&entries, cut.data() + 20, sizeof entries);
  ASSERT_EQ(entries, 4u) << "indices and their number, no offsets, no weights";
  entries = 1;
  std::memcpy(cut.data() + 20, &entries, sizeof entries);
  kept_blobs nothing;
  EXPECT_TRUE(refused(msg::blob::own(cut), &nothing));

  bags = {};
  const msg::blob drops = send(lookup_of({}));
  EXPECT_TRUE(refused(drops, &nothing)) << "what is not kept";
  receive(drops);
  EXPECT_EQ(kept_.size(), 0u);
}

}  // namespace
}  // namespace troupe::protocol::repeated_blobs_test
