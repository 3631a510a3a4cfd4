#include "model/files/byte_source.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/stop_request.hpp"
#include "model/input_file.hpp"
#include "model/random.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::byte_source_test {
namespace {

// The file's whole text, read in pieces of `capacity` bytes.
result<std::string> text_of(const std::string& path, std::size_t capacity = 1000) {
  const auto file = open_data_file(path);
  if (!file) return tl::unexpected(file.error());
  const auto how = compression_of(**file);
  if (!how) return tl::unexpected(how.error());
  const auto source = open_source(*file, *how, 0);
  std::string text;
  for (;;) {
    std::string piece(capacity, '\0');
    const auto got = source->read(piece.data(), capacity);
    if (!got) return tl::unexpected(got.error());
    if (*got == 0) return text;
    text += piece.substr(0, *got);
  }
}

// Lines that do not compress to almost nothing.
std::string sample_text(std::size_t lines) {
  std::string text;
  random_sequence random(7);
  for (std::size_t i = 0; i < lines; ++i) text += fmt::format("{}\t{:x}\n", i, random.bits());
  return text;
}

std::string fault_of(const std::string& bytes) {
  const temporary_file file(bytes);
  const auto message = refusal(text_of(file.path()));
  const std::string start = file.path() + ": ";
  EXPECT_EQ(message.substr(0, start.size()), start);
  return message.substr(std::min(start.size(), message.size()));
}

// A few packed bytes may expand to endless text.
TEST(ByteSource, EndsEarlyWhenAStopIsAskedForWithinItsText) {
  const std::string text = sample_text(50'000);
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const temporary_file bytes_of(bytes);
    const auto file = open_data_file(bytes_of.path()).value();
    const auto source = open_source(file, compression_of(*file).value(), 0);
    stop_request wish;
    const stop_scope heeds(wish);
    std::string piece(1000, '\0');
    ASSERT_TRUE(source->read(piece.data(), piece.size()));
    wish.request();
    const auto ended = source->read(piece.data(), piece.size());
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, bytes_of.path() + ": a stop was requested");
  }
}

TEST(ByteSource, PlainGzipAndZstdAreToldByTheirBytes) {
  const std::string text = sample_text(50'000);
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const temporary_file file(bytes);
    for (const std::size_t capacity : {std::size_t{1000}, std::size_t{1} << 20, std::size_t{1} << 24}) {
      const auto got = text_of(file.path(), capacity);
      ASSERT_TRUE(got.has_value()) << got.error().message;
      EXPECT_TRUE(*got == text);
    }
  }
}

TEST(ByteSource, APlainFileCanBeEnteredAnywhere) {
  const temporary_file file("0123456789");
  const auto source = open_source(*open_data_file(file.path()), compression::none, 7);
  std::string piece(100, '\0');
  EXPECT_EQ(source->read(piece.data(), piece.size()), 3U);
  EXPECT_EQ(piece.substr(0, 3), "789");
  EXPECT_EQ(source->read(piece.data(), piece.size()), 0U);
}

TEST(ByteSource, SeveralMembersAndFramesFollowEachOther) {
  const std::string a = sample_text(100);
  const std::string b = sample_text(30'000);
  // A skippable frame: its magic number, a length of 3, 3 bytes.
  const std::string skippable("\x53\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  for (const std::string& bytes : {gzip(a) + gzip("") + gzip(b), zstd(a) + skippable + zstd("") + zstd(b),
                                   skippable + zstd(a + b), gzip(a + b) + gzip("")}) {
    const temporary_file file(bytes);
    for (const std::size_t capacity : {1U, 4096U}) {
      const auto got = text_of(file.path(), capacity);
      ASSERT_TRUE(got.has_value()) << got.error().message;
      EXPECT_TRUE(*got == a + b);
    }
  }
}

TEST(ByteSource, CompressedDataThatAreCutOffAnywhereAreRefused) {
  const std::string text = sample_text(20);
  for (const std::string& whole : {gzip(text), zstd(text), gzip(text) + gzip(text), zstd(text) + zstd(text)}) {
    for (std::size_t size = 4; size < whole.size(); ++size) {
      if (size * 2 == whole.size()) continue;  // exactly one of two whole streams
      const std::string message = fault_of(whole.substr(0, size));
      EXPECT_NE(message.find(fmt::format("data are cut off: the file ends at byte {}, before they do", size)),
                std::string::npos)
          << message;
    }
  }
  EXPECT_EQ(fault_of(gzip(text).substr(0, 50)),
            "the gzip data are cut off: the file ends at byte 50, before they do; get the file again");
}

// Some bytes only say when and by what program the data were made.
TEST(ByteSource, AByteThatChangesTheTextIsRefused) {
  const std::string text = sample_text(20);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    for (std::size_t place = 0; place < whole.size(); ++place) {
      for (const char flip : {'\x01', '\x80'}) {
        std::string damaged = whole;
        damaged[place] = static_cast<char>(damaged[place] ^ flip);
        const temporary_file file(damaged);
        const auto got = text_of(file.path());
        const bool is_told_as_plain = place < 4 && got.has_value() && *got == damaged;
        EXPECT_TRUE(!got.has_value() || *got == text || is_told_as_plain) << "byte " << place;
      }
    }
  }
  std::string damaged = gzip(text);
  damaged[damaged.size() - 6] ^= 1;
  EXPECT_EQ(fault_of(damaged), fmt::format("damaged gzip data near byte {}: incorrect data check; get the file again",
                                           damaged.size() - 4));
}

TEST(ByteSource, SomethingElseBehindCompressedDataIsRefused) {
  const std::string text = sample_text(20);
  EXPECT_EQ(
      fault_of(gzip(text) + "0\t1\n"),
      fmt::format("something else follows the gzip data at byte {}; must be gzip data to the end", gzip(text).size()));
  EXPECT_EQ(
      fault_of(zstd(text) + "0\t1\t2\t3\n"),
      fmt::format("something else follows the zstd data at byte {}; must be zstd data to the end", zstd(text).size()));
  EXPECT_NE(fault_of(zstd(text) + gzip(text)).find("something else follows"), std::string::npos);
  EXPECT_NE(fault_of(gzip(text) + std::string(512, '\0')).find("something else follows"), std::string::npos);
}

// A zstd frame with one uncompressed block and a window of 2^`power` x (1 + `eighths` / 8) bytes.
std::string frame_with_window(unsigned power, unsigned eighths, const std::string& text) {
  std::string frame("\x28\xb5\x2f\xfd\0", 5);
  frame += static_cast<char>((power - 10) << 3 | eighths);
  const std::size_t block = text.size() << 3 | 1;
  for (const int shift : {0, 8, 16}) frame += static_cast<char>(block >> shift & 0xff);
  return frame + text;
}

TEST(ByteSource, WindowsAreReadUpToTheLimitAndNamedBeyond) {
  const std::string text = sample_text(20);
  for (const unsigned power : {10U, 27U, 28U}) {
    const temporary_file file(zstd("") + frame_with_window(power, 0, text));
    const auto got = text_of(file.path());
    ASSERT_TRUE(got.has_value()) << got.error().message;
    EXPECT_TRUE(*got == text);
  }
  const std::string advice = ": must be at most 2.0 GiB; compress it anew, such as by zstd --long=31";
  EXPECT_EQ(fault_of(frame_with_window(31, 1, text)), "has a zstd window of 2.2 GiB" + advice);
  EXPECT_EQ(fault_of(zstd(text) + frame_with_window(32, 0, text)), "has a zstd window of 4.0 GiB" + advice);
  EXPECT_EQ(fault_of(frame_with_window(41, 7, text)), "has a zstd window of 3.8 TiB" + advice);
}

TEST(ByteSource, ADictionaryThatIsNeededIsNamed) {
  std::string frame = frame_with_window(20, 0, "0\t1\n");
  frame[4] = 1;  // a one-byte dictionary number follows the window
  frame.insert(6, 1, '\x2a');
  EXPECT_EQ(fault_of(frame), "needs the zstd dictionary 42: must need none; compress it anew without");
}

TEST(ByteSource, OtherCompressionsAreNamed) {
  const std::string rest = ": must be plain, or compressed by gzip or zstd; unpack it";
  EXPECT_EQ(fault_of(std::string("\xfd\x37zXZ\0\0\4", 8)), "is compressed by xz" + rest);
  EXPECT_EQ(fault_of("BZh61AY&SY\x01"), "is compressed by bzip2" + rest);
  EXPECT_EQ(fault_of("\x04\x22\x4d\x18\x64\x40"), "is compressed by lz4" + rest);
  EXPECT_EQ(fault_of("PK\x03\x04\x14"), "is a zip archive" + rest);
}

TEST(DataFile, WhatIsNoFileIsRefused) {
  EXPECT_EQ(refusal(open_data_file("/no/such/file")),
            "/no/such/file: No such file or directory; a data file is expected");
  EXPECT_EQ(refusal(open_data_file("/dev/null")), "/dev/null: not a regular file: must be a data file");
  EXPECT_EQ(refusal(open_data_file(testing::TempDir())), testing::TempDir() + ": a directory: must be a data file");
  const temporary_file empty("");
  EXPECT_EQ(refusal(open_data_file(empty.path())), empty.path() + ": empty: must have at least one row");
  EXPECT_EQ(refusal(open_data_file("a\nb")), "a\\x0ab: No such file or directory; a data file is expected");
}

TEST(DataFile, WhatMayNotBeReadIsRefused) {
  const temporary_file file("0\n");
  ::chmod(file.path().c_str(), 0);
  // Root may read everything: switch to another user for a moment.
  constexpr uid_t nobody = 65534;
  const uid_t before = ::geteuid();
  ASSERT_EQ(before == 0 ? ::seteuid(nobody) : 0, 0);
  const auto opened = open_data_file(file.path());
  ASSERT_EQ(before == 0 ? ::seteuid(before) : 0, 0);
  EXPECT_EQ(refusal(opened), file.path() + ": Permission denied; a data file is expected");
}

TEST(DataFile, TellsWhenItHasBeenWrittenTo) {
  const temporary_file file("0\n1\n");
  const auto opened = *open_data_file(file.path());
  EXPECT_FALSE(opened->changed().has_value());
  file.write("0\n1\n2\n");
  ASSERT_TRUE(opened->changed().has_value());
  EXPECT_EQ(
      opened->changed()->message,
      file.path() + ": changed since the run opened it, from 4 to 6 bytes; leave a file alone while a run reads it");
}

}  // namespace
}  // namespace troupe::model::byte_source_test
