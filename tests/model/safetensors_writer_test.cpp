#include "model/safetensors_writer.hpp"
#include "base/digest.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "model/safetensors.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/model/strict_safetensors.hpp"
#include "tests/model/watched_system.hpp"
#include "tests/read_file.hpp"

namespace troupe::model::safetensors_writer_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The published digests of XXH3's 128-bit form (xxHash's sanity checks, seed 0).
TEST(FileDigest, IsTheOneThatXxh128sumPrints) {
  EXPECT_EQ(running_digest().hex(), "99aa06d3014798d86001c324468d497f");
  const std::string text = "abc";
  running_digest whole;
  whole.add(bytes_of(text));
  running_digest pieces;
  for (const char& one : text) pieces.add(std::as_bytes(std::span(&one, 1)));
  EXPECT_EQ(whole.hex(), "06b05ab6733a618578af5f94892f3950");
  EXPECT_EQ(pieces.hex(), whole.hex());
}

TEST(OutputFile, HoldsWhatCameInPiecesOfAnySize) {
  const checkpoint_folder folder;
  const auto content = made_bytes("content", 0, (std::size_t{5} << 19) + 7);
  for (const std::size_t piece :
       {std::size_t{1000}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1, content.size()}) {
    const std::string path = folder / fmt::format("{}", piece);
    auto file = output_file::create(path, content.size());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    for (std::size_t at = 0; at < content.size(); at += piece) {
      ASSERT_TRUE(file->append(std::span(content).subspan(at, std::min(piece, content.size() - at))).has_value());
    }
    const auto written = file->close();
    ASSERT_TRUE(written.has_value()) << written.error().message;
    EXPECT_EQ(written->length, content.size());
    running_digest digest;
    digest.add(content);
    EXPECT_EQ(written->digest, digest.hex());
    const std::string found = read_file(path);
    ASSERT_EQ(found.size(), content.size());
    EXPECT_EQ(std::memcmp(found.data(), content.data(), content.size()), 0);
  }
}

TEST(OutputFile, SaysWhatTheSystemSays) {
  const checkpoint_folder folder;
  const std::string path = folder / "none/file";
  const auto none = output_file::create(path, 1);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().kind, fault_kind::run);
  EXPECT_EQ(none.error().message, path + ": creating it: No such file or directory");

  auto full = output_file::create(folder / "full", 4);
  ASSERT_TRUE(full.has_value());
  ASSERT_TRUE(full->append(bytes_of("four")).has_value());
  const system_watch disk_is_full(at_call::fail);
  EXPECT_EQ(full->close().error().message,
            folder / "full" + ": No space left on device after 0 of 4 bytes; make room on that disk");
}

TEST(OutputFile, TakesThePlaceOfAFileOrALinkAndOfNothingElse) {
  const checkpoint_folder folder;
  set_content(folder / "mine", "private");
  std::filesystem::create_symlink(folder / "mine", folder / "link");
  std::filesystem::create_symlink(folder / "nowhere", folder / "dangling");
  std::filesystem::create_hard_link(folder / "mine", folder / "second name");
  set_content(folder / "old", "longer than four");
  for (const char* name : {"link", "dangling", "second name", "old"}) {
    ASSERT_TRUE(write_whole_file(folder / name, bytes_of("four")).has_value()) << name;
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / name))) << name;
    EXPECT_EQ(read_file(folder / name), "four");
  }
  EXPECT_EQ(read_file(folder / "mine"), "private");
  EXPECT_FALSE(std::filesystem::exists(folder / "nowhere"));
  ASSERT_TRUE(std::filesystem::create_directory(folder / "folder"));
  EXPECT_EQ(output_file::create(folder / "folder", 4).error().message,
            folder / "folder" + ": creating it: File exists");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "folder"));
}

TEST(OutputFile, OfAnotherLengthThanDeclaredIsAFault) {
  const checkpoint_folder folder;
  auto file = output_file::create(folder / "file", 5);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->append(bytes_of("four")).has_value());
  EXPECT_EQ(file->close().error().message, folder / "file" + ": 4 bytes came to be written: must be 5");
}

// -- safetensors --------------------------------------------------------------

TEST(SafetensorsWriter, WritesTheseBytes) {
  const checkpoint_folder folder;
  const std::vector<float> values = {1.5F, -2};
  const std::string small = "xyz";
  const std::vector<tensor_view> tensors = {
      {{"b", dtype::u8, {3}}, bytes_of(small)},
      {{"a", dtype::f32, {1, 2}}, std::as_bytes(std::span(values))},
  };
  const auto written = write_safetensors(folder / "file", tensors, {{"step", "4\"0"}});
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const std::string header =
      R"({"__metadata__":{"step":"4\"0"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  const std::string length{static_cast<char>(header.size() + padding.size()), 0, 0, 0, 0, 0, 0, 0};
  const std::string expected = length + header + padding + std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0xyz", 11);
  EXPECT_EQ(read_file(folder / "file"), expected);
  EXPECT_EQ(written->length, expected.size());
}

TEST(SafetensorsWriter, EveryTensorIsAlignedAndNoneIsFollowedByAHole) {
  const checkpoint_folder folder;
  std::vector<std::pair<tensor_declaration, std::vector<std::byte>>> tensors;
  for (const auto& [type, count] : {std::pair(dtype::u8, 3),
                                    {dtype::f16, 5},
                                    {dtype::bf16, 1},
                                    {dtype::f32, 7},
                                    {dtype::i64, 2},
                                    {dtype::f64, 1},
                                    {dtype::u8, 1},
                                    {dtype::f32, 0}}) {
    const std::string name = fmt::format("{}.{}", 9 - tensors.size(), name_in_file(type));
    const auto extent = static_cast<std::uint64_t>(count);
    tensors.push_back({{name, type, {extent}}, made_bytes(name, 1, extent * size_of(type))});
  }
  tensors.push_back({{"scalar", dtype::f32, {}}, made_bytes("scalar", 1, 4)});
  tensors.push_back({{"empty", dtype::f32, {0, 5}}, {}});
  std::vector<tensor_view> views;
  for (const auto& [what, bytes] : tensors) views.push_back({what, bytes});
  ASSERT_TRUE(write_safetensors(folder / "file", views, {}).has_value());

  const plain_file read = read_strictly(read_file(folder / "file"));
  EXPECT_TRUE(read.metadata.empty());
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [what, bytes] : tensors) {
    const plain_tensor& found = read.tensors.at(what.name);
    EXPECT_EQ(found.type, name_in_file(what.type));
    EXPECT_EQ(found.shape, what.shape);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(found.bytes)), bytes)) << what.name;
  }
  const auto ours = safetensors_file::open(folder / "file");
  ASSERT_TRUE(ours.has_value()) << ours.error().message;
  EXPECT_EQ(ours->header().tensors.size(), tensors.size());
}

TEST(SafetensorsWriter, NoTensorsMakeASoundFile) {
  const checkpoint_folder folder;
  ASSERT_TRUE(write_safetensors(folder / "file", {}, {}).has_value());
  EXPECT_TRUE(read_strictly(read_file(folder / "file")).tensors.empty());
  ASSERT_TRUE(write_safetensors(folder / "file", {}, {{"a", "1"}, {"b", ""}}).has_value());
  EXPECT_EQ(read_strictly(read_file(folder / "file")).metadata,
            (std::map<std::string, std::string>{{"a", "1"}, {"b", ""}}));
}

TEST(SafetensorsWriter, MetadataAreTextWhateverTheirBytes) {
  const checkpoint_folder folder;
  ASSERT_TRUE(
      write_safetensors(folder / "file", {}, {{"data", "csv:caf\xe9\n\x01.csv"}, {"name", "caf\xc3\xa9"}}).has_value());
  const auto metadata = read_strictly(read_file(folder / "file")).metadata;
  EXPECT_EQ(metadata.at("data"), "csv:caf\\xe9\n\x01.csv");
  EXPECT_EQ(metadata.at("name"), "caf\xc3\xa9");
}

TEST(SafetensorsWriter, RefusesWhatIsNoFile) {
  const checkpoint_folder folder;
  const std::string path = folder / "file";
  const auto message = [&path](std::vector<tensor_declaration> tensors) {
    const auto made = safetensors_writer::create(path, std::move(tensors), {});
    EXPECT_FALSE(made.has_value());
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(message({{"a", dtype::u8, {1}}, {"a", dtype::f32, {1}}}), path + ": tensor a is there twice");
  EXPECT_EQ(message({{"a", dtype::f32, {std::uint64_t{1} << 32, std::uint64_t{1} << 30}}}),
            path + ": a [4294967296, 1073741824]: its bytes must be less than 2^64");
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(message({{"a", dtype::u8, {half}}, {"b", dtype::u8, {half}}}),
            path + ": b [9223372036854775808]: its bytes must be less than 2^64");
  const std::string two = "xy";
  const std::vector<tensor_view> short_of_one = {{{"a", dtype::u8, {3}}, bytes_of(two)}};
  EXPECT_EQ(write_safetensors(path, short_of_one, {}).error().message, path + ": 2 bytes for tensor a U8 [3]");
}

TEST(SafetensorsWriter, BytesMayBeCutAnywhere) {
  const checkpoint_folder folder;
  const std::vector<tensor_declaration> tensors = {{"a", dtype::f32, {3}}, {"b", dtype::f32, {2}}};
  const auto bytes = made_bytes("both", 2, 20);
  auto writer = safetensors_writer::create(folder / "file", tensors, {});
  ASSERT_TRUE(writer.has_value());
  EXPECT_EQ(writer->tensors(), tensors);
  for (const std::byte& one : bytes) ASSERT_TRUE(writer->append(std::span(&one, 1)).has_value());
  ASSERT_TRUE(writer->finish().has_value());
  const plain_file read = read_strictly(read_file(folder / "file"));
  const std::string found = read.tensors.at("a").bytes + read.tensors.at("b").bytes;
  EXPECT_TRUE(std::ranges::equal(bytes_of(found), bytes));
}

TEST(SafetensorsWriter, MissingBytesAreAFault) {
  const checkpoint_folder folder;
  auto writer = safetensors_writer::create(folder / "file", {{"a", dtype::u8, {3}}}, {});
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->append(bytes_of("xy")).has_value());
  const auto finished = writer->finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_NE(finished.error().message.find("bytes came to be written: must be "), std::string::npos);
}

}  // namespace
}  // namespace troupe::model::safetensors_writer_test
