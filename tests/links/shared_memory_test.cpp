// Shared memory between writer and reader, and the links that send large frames through it.

#include "cluster/links/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "cluster/links/bytes.hpp"
#include "cluster/links/shared_memory_link.hpp"
#include "tests/links/stage.hpp"

namespace troupe::links::shared_memory_test {
namespace {

constexpr std::size_t kibi = 1024;
constexpr std::size_t mebi = 1024 * kibi;

class SharedMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(writer, nullptr);
    reader = shared_memory_reader::open(writer->name());
    ASSERT_NE(reader, nullptr);
  }

  std::unique_ptr<shared_memory_writer> writer = shared_memory_writer::make(64 * kibi);
  std::shared_ptr<shared_memory_reader> reader;
};

TEST_F(SharedMemory, WhatIsWrittenIsReadAtAnAlignedPlace) {
  const std::string text = "some words";
  ASSERT_TRUE(writer->take(1));
  const auto chunk = writer->take(text.size());
  ASSERT_TRUE(chunk);
  std::memcpy(writer->memory_of(*chunk), text.data(), text.size());
  const auto there = reader->read(*chunk);
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(there.get()), text.size()), text);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.get()) % 64, 0U);
}

TEST_F(SharedMemory, TheLowestPlaceWithRoomIsTakenAgainWhenTheReaderLetsGo) {
  const auto first = writer->take(30 * kibi);
  const auto second = writer->take(30 * kibi);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->offset, 0U);
  EXPECT_EQ(second->offset, 30 * kibi);
  EXPECT_FALSE(writer->take(5 * kibi)) << "4 KiB are left";
  auto kept = reader->read(*first);
  EXPECT_FALSE(writer->take(5 * kibi)) << "it is still being read";
  kept.reset();
  const auto third = writer->take(5 * kibi);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->offset, 0U);
  const auto fourth = writer->take(25 * kibi);
  ASSERT_TRUE(fourth);
  EXPECT_EQ(fourth->offset, 5 * kibi);
}

TEST_F(SharedMemory, RoomIsRefusedWhenAllSlotsAreInUse) {
  constexpr int slots = 1024;
  for (int i = 0; i < slots; ++i) ASSERT_TRUE(writer->take(0)) << i;
  EXPECT_FALSE(writer->take(0));
}

TEST_F(SharedMemory, ItOutlivesItsWriterAsLongAsSomebodyReads) {
  const auto chunk = writer->take(5);
  std::memcpy(writer->memory_of(*chunk), "still", 5);
  const auto kept = reader->read(*chunk);
  writer.reset();
  reader.reset();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(kept.get()), 5), "still");
}

TEST_F(SharedMemory, AChunkThatDoesNotLieInItIsRefused) {
  EXPECT_EQ(reader->read({1024, 0, 1}), nullptr) << "slot";
  EXPECT_EQ(reader->read({0, 32, 1}), nullptr) << "alignment";
  EXPECT_EQ(reader->read({0, 0, 64 * kibi + 1}), nullptr) << "size";
  EXPECT_EQ(reader->read({0, 64, 64 * kibi}), nullptr) << "end";
  EXPECT_EQ(reader->read({0, 64, UINT64_MAX}), nullptr) << "a sum that wraps around";
  EXPECT_EQ(reader->read({0, UINT64_MAX - 63, 64}), nullptr) << "offset";
  EXPECT_NE(reader->read({1023, 0, 64 * kibi}), nullptr) << "all of it";
}

TEST_F(SharedMemory, AnotherMemoryIsNotTakenForIt) {
  shared_memory_name other = writer->name();
  other.secret[31] ^= std::byte{1};
  EXPECT_EQ(shared_memory_reader::open(other), nullptr) << "another nonce";
  other = writer->name();
  other.process = 0;
  EXPECT_EQ(shared_memory_reader::open(other), nullptr) << "no such process";
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  other = writer->name();
  other.file = static_cast<std::uint32_t>(pipe_ends[0]);
  EXPECT_EQ(shared_memory_reader::open(other), nullptr) << "no memory";
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(SharedMemory, NobodyCanShrinkItUnderAReader) {
  const auto path = fmt::format("/proc/self/fd/{}", writer->name().file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_NE(ftruncate(file, 0), 0);
  close(file);
}

/// Counts the bytes that pass through it.
class counting_link final : public link {
 public:
  explicit counting_link(link_ptr below) : below_(std::move(below)) {}
  void start(callbacks what) override { below_->start(std::move(what)); }
  void send(std::uint8_t kind, std::vector<piece> body, bool more_follows) override {
    for (const piece& one : body) bytes += one.size;
    below_->send(kind, std::move(body), more_follows);
  }
  void flush() override { below_->flush(); }
  void pause_reading(bool pause) override { below_->pause_reading(pause); }
  void close() override { below_->close(); }
  std::uint64_t queued_bytes() const override { return below_->queued_bytes(); }
  const hello& peer() const override { return below_->peer(); }
  const std::string& peer_certificate() const override { return below_->peer_certificate(); }
  endpoint local_address() const override { return below_->local_address(); }
  endpoint remote_address() const override { return below_->remote_address(); }

  std::uint64_t bytes = 0;

 private:
  link_ptr below_;
};

class SharedMemoryLink : public LinkStage {
 protected:
  void connect_both(bool here_offers, bool there_offers) {
    auto [one, other] = make_ends({good_token, nullptr});
    below = std::make_shared<counting_link>(one->wire);
    raw_there = other->wire;
    here = std::make_unique<link_end>(with_shared_memory(below, limits, here_offers ? 64 * mebi : 0));
    there = std::make_unique<link_end>(with_shared_memory(raw_there, limits, there_offers ? 64 * mebi : 0));
  }

  /// Starts both, and waits until each offer was accepted: frames sent before are echoed after the answer to it.
  void start_both() {
    start(*here);
    start(*there);
    for (int turn = 0; turn < 2; ++turn) {
      here->wire->send(2, {to_piece("ready")});
      there->wire->send(2, {to_piece("ready")});
      ASSERT_TRUE(wait([&] { return !here->frames.empty() && !there->frames.empty(); }));
      here->frames.clear();
      there->frames.clear();
    }
    below->bytes = 0;
  }

  static std::string body(std::size_t number, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251 + number * 17);
    return bytes;
  }

  void expect_to_arrive(const std::vector<std::size_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::string whole = body(i, sizes[i]);
      here->wire->send(static_cast<std::uint8_t>(2 + i), {to_piece(whole.substr(0, whole.size() / 3)), to_piece(""),
                                                          to_piece(whole.substr(whole.size() / 3))});
    }
    ASSERT_TRUE(wait([&] { return there->frames.size() == sizes.size(); }));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(there->frames[i].kind, 2 + i);
      EXPECT_EQ(to_text(there->frames[i]), body(i, sizes[i])) << "frame " << i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there->frames[i].memory.get()) % 64, 0U);
    }
    there->frames.clear();
  }

  std::shared_ptr<counting_link> below;
  link_ptr raw_there;
  std::unique_ptr<link_end> here;
  std::unique_ptr<link_end> there;
};

TEST_F(SharedMemoryLink, LargeFramesGoThroughMemoryAndArriveInOrderBetweenSmallOnes) {
  connect_both(true, true);
  start_both();
  expect_to_arrive({0, 8 * mebi, 1, shared_frame_bytes_min, shared_frame_bytes_min - 1, 30 * mebi, 100});
  EXPECT_LT(below->bytes, 2 * shared_frame_bytes_min);
}

TEST_F(SharedMemoryLink, WhatFindsNoRoomGoesOverTheLinkBelow) {
  connect_both(true, true);
  start_both();
  expect_to_arrive({40 * mebi, 40 * mebi, 65 * mebi, 20 * mebi});
  EXPECT_GT(below->bytes, (40 + 65) * mebi);
  EXPECT_LT(below->bytes, (40 + 65 + 1) * mebi);
}

TEST_F(SharedMemoryLink, ASideThatOffersNoneSendsOverTheLinkBelow) {
  connect_both(false, true);
  start_both();
  expect_to_arrive({8 * mebi});
  EXPECT_EQ(below->bytes, 8 * mebi);
}

TEST_F(SharedMemoryLink, AFrameIsKeptWhenBothEndsAreGone) {
  connect_both(true, true);
  start_both();
  const std::string whole = body(3, mebi);
  here->wire->send(2, {to_piece(whole)});
  ASSERT_TRUE(wait([&] { return there->frames.size() == 1; }));
  EXPECT_LT(below->bytes, mebi);
  const received_frame kept = there->frames.front();
  here->wire->close();
  ASSERT_TRUE(wait([&] { return there->end_count == 1; }));
  EXPECT_FALSE(there->ended_by);
  here.reset();
  there.reset();
  raw_there.reset();
  below.reset();
  accepted.clear();
  EXPECT_EQ(to_text(kept), whole);
}

/// False claims of a peer about its memory.
class FalseWord : public SharedMemoryLink, public testing::WithParamInterface<const char*> {
 protected:
  static std::pair<std::uint8_t, std::string> frame(const std::string& which) {
    std::string announcement(24, '\0');
    announcement[0] = 2;
    if (which == "another_form") return {253, "x"};
    if (which == "twice") return {253, std::string(40, '\0')};
    if (which == "short") return {255, "x"};
    if (which == "kind") announcement[0] = '\1';
    if (which == "own_kind") announcement[0] = '\xff';
    if (which == "place") announcement[15] = '\x7f';
    if (which == "size") announcement[23] = '\x7f';
    return {255, announcement};
  }
};

INSTANTIATE_TEST_SUITE_P(About, FalseWord,
                         testing::Values("another_form", "twice", "short", "kind", "own_kind", "place", "size"),
                         [](const auto& one) { return one.param; });

TEST_P(FalseWord, EndsTheLinkWithAReason) {
  connect_both(true, true);
  start_both();
  const auto [kind, text] = frame(GetParam());
  raw_there->send(kind, {to_piece(text)});
  ASSERT_TRUE(wait([&] { return here->end_count == 1; }));
  ASSERT_TRUE(here->ended_by);
  EXPECT_NE(here->ended_by->message.find("memory"), std::string::npos) << here->ended_by->message;
  EXPECT_TRUE(here->frames.empty());
}

TEST_F(SharedMemoryLink, AnAnnouncementBeforeAnyOfferEndsTheLink) {
  connect_both(false, false);
  start_both();
  raw_there->send(255, {to_piece(std::string(24, '\0'))});
  ASSERT_TRUE(wait([&] { return here->end_count == 1; }));
  EXPECT_TRUE(here->ended_by);
}

}  // namespace
}  // namespace troupe::links::shared_memory_test
