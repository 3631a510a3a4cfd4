// Goal: reading files that are small on disk but large in memory is bounded. Method: logs made here, whose blocks
// compress to almost nothing.

#include "trace/record/memory_budget.hpp"

#include <gtest/gtest.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <cstring>
#include <fstream>

#include "temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/follower.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/ring.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace::memory_budget_test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

std::string log_of(std::uint64_t process, block_kind what, const std::vector<std::string>& blocks) {
  file_head head{};
  head.magic = log_magic;
  head.version = format_version;
  head.head_size = head_bytes;
  head.metadata_size = metadata_bytes;
  head.chunk_size = chunk_bytes;
  head.record_size = sizeof(record);
  head.process = process;
  head.run = 5;
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.resize(head_bytes + metadata_bytes);
  for (const std::string& raw : blocks) {
    std::string packed(ZSTD_compressBound(raw.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
    const block_head block{block_magic, what, packed.size(), raw.size(), XXH3_64bits(packed.data(), packed.size())};
    bytes.append(reinterpret_cast<const char*>(&block), sizeof block);
    bytes += packed;
  }
  return bytes;
}

/// `count` contents of ten parts without bytes.
std::string log_of_contents(std::uint64_t process, std::size_t count) {
  content one;
  one.parts.resize(10);
  std::string raw;
  for (std::size_t i = 0; i < count; ++i) write_content(one, raw);
  return log_of(process, block_kind::contents, {raw});
}

/// `count` chunks without records, 64 to a block.
std::string log_of_chunks(std::uint64_t process, std::uint64_t count) {
  constexpr std::uint64_t chunks_in_block = 64;
  std::vector<std::string> blocks;
  for (std::uint64_t number = 1; number <= count; ++number) {
    if (number % chunks_in_block == 1) blocks.emplace_back();
    blocks.back().append(reinterpret_cast<const char*>(&number), sizeof number);
    blocks.back().resize(blocks.back().size() + chunk_bytes - sizeof number);
  }
  return log_of(process, block_kind::chunks, blocks);
}

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(MemoryBudget, GivesNothingAnyMoreOnceItIsExceeded) {
  memory_budget budget(3 * mib);
  EXPECT_TRUE(budget.take(2 * mib));
  EXPECT_TRUE(budget.fits(mib));
  EXPECT_TRUE(budget.take(mib));
  EXPECT_FALSE(budget.exceeded());
  EXPECT_FALSE(budget.take(5 * mib));
  EXPECT_FALSE(budget.take(0));
  EXPECT_TRUE(budget.exceeded());
  EXPECT_EQ(budget.taken(), 3 * mib);
  EXPECT_EQ(
      budget.problem(),
      "takes at least 8.0 MiB of memory, together with the files read before it; the limit is 3.0 MiB, a share of "
      "what is available: read fewer files at once, free memory, or record less (--trace-filter, --trace ring)");
  EXPECT_FALSE(memory_budget(1).take(memory_budget::unlimited));
}

TEST(MemoryBudget, CountsContentsAsTheyAreInMemory) {
  constexpr std::size_t count = 1000;
  const std::string bytes = log_of_contents(1, count);
  memory_budget all;
  const auto read = value_of(parse_trace_file(bytes, "a.log", all));
  ASSERT_EQ(read.contents.size(), count);
  EXPECT_EQ(read.contents[0].parts.capacity(), 10U);
  EXPECT_GE(all.taken(), read.contents.capacity() * sizeof(content) + count * 10 * sizeof(content_part));
  memory_budget enough(all.taken() + bytes.size());
  EXPECT_TRUE(parse_trace_file(bytes, "a.log", enough));
  memory_budget too_little(all.taken() - 1);
  const auto refused = parse_trace_file(bytes, "a.log", too_little);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("a.log: takes at least 1.")) << refused.error().message;
}

TEST(MemoryBudget, CountsBytesOfPartsBeforeTheyAreCopied) {
  content one;
  one.fields.resize(mib);
  one.parts.resize(1);
  one.parts[0].bytes.resize(2 * mib);
  std::string raw;
  write_content(one, raw);
  memory_budget budget(4 * mib);
  content made;
  std::string_view from = raw;
  EXPECT_TRUE(read_content(from, made, budget));
  from = raw;
  content more;
  EXPECT_FALSE(read_content(from, more, budget));  // another 3 MiB
  EXPECT_TRUE(more.fields.empty());
  EXPECT_GE(budget.taken(), 3 * mib);
  EXPECT_LE(budget.taken(), 4 * mib);
}

TEST(MemoryBudget, PartsThatAContentOnlyClaimsTakeNothing) {
  std::string raw;
  write_content({}, raw);
  const std::uint32_t parts = UINT32_MAX;
  constexpr std::size_t place = 12;  // after the message, the actor and the type
  std::memcpy(raw.data() + place, &parts, sizeof parts);
  memory_budget budget;
  content made;
  std::string_view from = raw;
  EXPECT_FALSE(read_content(from, made, budget));
  EXPECT_EQ(budget.taken(), 0U);
  EXPECT_EQ(made.parts.capacity(), 0U);
}

TEST(MemoryBudget, IsOneForAllFilesOfARecording) {
  const temporary_folder folder;
  for (const auto& [name, bytes] :
       {std::pair{"chunks", log_of_chunks(1, 8192)}, {"contents", log_of_contents(1, 1500)}}) {
    ASSERT_LT(bytes.size(), 200'000U) << name;
    const std::filesystem::path one = folder.path() / name;
    std::filesystem::create_directory(one);
    write_file(one / "a.log", bytes);
    memory_budget budget;
    ASSERT_TRUE(read_trace_file(one / "a.log", budget));
    // Two files of a recording; each fits alone, with its largest block.
    std::string other = bytes;
    other[offsetof(file_head, process)] = 2;
    write_file(one / "b.log", other);
    sources from{{one}};
    from.memory_bytes_max = 2 * budget.taken() + 2 * mib;
    EXPECT_TRUE(read_recording(from)) << name;
    from.memory_bytes_max = budget.taken() + 2 * mib;
    from.paths = {one / "b.log"};
    EXPECT_TRUE(read_recording(from)) << name;
    from.paths = {one};
    from.memory_bytes_max = 2 * budget.taken() - 1;
    const auto refused = read_recording(from);
    ASSERT_FALSE(refused) << name;
    EXPECT_NE(refused.error().message.find(": takes at least "), std::string::npos) << refused.error().message;
    const auto followed = follower::open(from);
    ASSERT_FALSE(followed) << name;
    EXPECT_EQ(followed.error().message, refused.error().message);
  }
}

TEST(MemoryBudget, AFileThatIsTooLargeIsNotRead) {
  const temporary_folder folder;
  const auto file = folder.path() / "a.log";
  write_file(file, log_of_contents(1, 1));
  std::filesystem::resize_file(file, std::uint64_t{1} << 40);  // a sparse file: it uses no space
  sources from{{file}};
  const auto refused = read_recording(from);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.find(file.string() + ": takes at least 1.0 TiB of memory"), 0U)
      << refused.error().message;
}

TEST(MemoryBudget, ARecordingHasTheContentsOfItsFilesAndNoCopies) {
  content one;
  one.fields.resize(1000);
  std::string raw;
  write_content(one, raw);
  std::vector<trace_file> files;
  files.push_back(*parse_trace_file(log_of(1, block_kind::contents, {raw}), "a.log"));
  const char* const bytes = files[0].contents.at(0).fields.data();
  const auto made = value_of(make_recording(std::move(files)));
  EXPECT_EQ(made.contents.at(0).fields.data(), bytes);
}

TEST(MemoryBudget, ARingThatClaimsMoreChunksThanItHasIsFollowedAllTheSame) {
  const temporary_folder folder;
  const auto made = value_of(ring::create({.file = folder.path() / "a.ring", .bytes = 16 * chunk_bytes}));
  made->head().run.store(5);
  made->head().chunks = std::uint64_t{1} << 60;
  made->head().next_chunk.store(std::uint64_t{1} << 60);
  auto all = value_of(follower::open({{folder.path()}}));
  const auto taken = value_of(all.take());
  EXPECT_TRUE(taken.events.empty());
}

}  // namespace
}  // namespace troupe::trace::memory_budget_test
