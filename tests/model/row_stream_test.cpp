// Goal: blocks hold the file's rows for any order of requests by any number of threads, and a file is read no more
// often and kept no longer than promised. Method: small files split into small blocks, whose rows are their own
// numbers.

#include "model/files/row_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "model/input_file.hpp"
#include "model/random.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::model::row_stream_test {
namespace {

// A line is a number: the row's label; its bag holds the number as often as its last digit says.
class numbers final : public row_format {
 public:
  numbers() { layout_.bags = 1; }

  const row_layout& layout() const override { return layout_; }
  const data_spec& spec() const override { return spec_; }

  std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags& to) const override {
    const std::string text(line);
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return "'" + text + "'";
    const auto number = static_cast<std::uint32_t>(std::stoul(text));
    record[0] = number;
    to.rows.insert(to.rows.end(), number % 10, number);
    to.begin.push_back(to.rows.size());
    return std::nullopt;
  }

  std::optional<std::string> check(std::string_view line, std::uint64_t& bag_values) const override {
    bag_values += static_cast<std::uint64_t>(line.back() - '0');
    return std::nullopt;
  }

 private:
  row_layout layout_;
  data_spec spec_;
};

std::string text_of(std::uint64_t rows) {
  std::string text;
  for (std::uint64_t row = 0; row < rows; ++row) text += std::to_string(row) + "\n";
  return text;
}

std::shared_ptr<const file_rows> rows_of(const temporary_file& file, row_cut cut) {
  auto found = find_rows(*open_data_file(file.path()), std::make_shared<const numbers>(), cut);
  EXPECT_TRUE(found.has_value()) << (found ? "" : found.error().message);
  return std::make_shared<const file_rows>(std::move(*found));
}

std::vector<std::uint32_t> records_of(const row_block& block) {
  return {block.records.get(), block.records.get() + block.rows};
}

void expect_block(const row_stream& stream, std::uint64_t number, row_selection which) {
  const auto block = stream.block(number);
  ASSERT_TRUE(block.has_value()) << block.error().message;
  const auto& cut = stream.source().cut;
  std::vector<std::uint32_t> expected;
  std::vector<std::uint64_t> windows;
  const std::uint64_t end = std::min((number + 1) * cut.block_rows(), stream.source().rows);
  for (std::uint64_t row = number * cut.block_rows(); row < end; ++row) {
    if (row % cut.window_rows == 0) windows.push_back(expected.size());
    if (which(row)) expected.push_back(static_cast<std::uint32_t>(row));
  }
  windows.push_back(expected.size());
  EXPECT_EQ((*block)->rows, expected.size());
  EXPECT_EQ(records_of(**block), expected);
  EXPECT_EQ((*block)->window_begin, windows);
  ASSERT_EQ((*block)->bags.begin.size(), expected.size() + 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ((*block)->bags.begin[i + 1] - (*block)->bags.begin[i], expected[i] % 10);
  }
  EXPECT_EQ(stream.first_row(number + 1) - stream.first_row(number), expected.size());
}

void expect_blocks_in_any_order(std::size_t readers) {
  const std::string text = text_of(997);
  for (const std::string& bytes : {text, text.substr(0, text.size() - 1), gzip(text), zstd(text)}) {
    const temporary_file file(bytes);
    for (const auto& which : {row_selection::all(), row_selection::kept(0.3), row_selection::held_out(0.3),
                              row_selection::held_out(0.001)}) {
      for (const row_cut cut : {row_cut{7, 3}, row_cut{1, 50}, row_cut{1000, 1}, row_cut{997, 1}, row_cut{100, 1}}) {
        const row_stream stream(rows_of(file, cut), which, readers);
        const std::uint64_t blocks = stream.source().blocks();
        EXPECT_EQ(blocks, (997 + cut.block_rows() - 1) / cut.block_rows());
        for (std::uint64_t number = 0; number < blocks; ++number) expect_block(stream, number, which);
        random_sequence random(1);
        for (int i = 0; i < 30; ++i) expect_block(stream, random.below(blocks), which);
      }
    }
  }
}

TEST(RowStream, BlocksAreTheRowsOfTheFileInAnyOrder) { expect_blocks_in_any_order(1); }

TEST(RowStream, SeveralReadersReadTheSameBlocks) { expect_blocks_in_any_order(3); }

// Blocks of many pieces: 839 kB of text.
TEST(RowStream, ReadersShareABlockPieceByPiece) {
  const std::string text = text_of(150'000);
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const temporary_file file(bytes);
    for (const auto& which : {row_selection::all(), row_selection::kept(0.3)}) {
      for (const row_cut cut : {row_cut{150'000, 1}, row_cut{999, 100}}) {
        const auto rows = rows_of(file, cut);
        ASSERT_GT(rows->pieces.size(), rows->blocks());
        for (const std::size_t readers : {1, 7}) {
          const row_stream stream(rows, which, readers);
          for (std::uint64_t number = 0; number < rows->blocks(); ++number) expect_block(stream, number, which);
          expect_block(stream, 0, which);
        }
      }
    }
  }
}

TEST(RowStream, PiecesAreTheRowsOfTheirBlocks) {
  const std::string text = text_of(150'000);
  const temporary_file file(text);
  const auto rows = rows_of(file, {1000, 60});
  ASSERT_EQ(rows->block_pieces.size(), 4U);
  for (std::uint64_t block = 0; block < 3; ++block) {
    EXPECT_EQ(rows->pieces[rows->block_pieces[block]].first_row, block * 60'000);
    std::uint64_t values = 0;
    for (std::size_t i = rows->block_pieces[block]; i < rows->block_pieces[block + 1]; ++i) {
      const file_piece& piece = rows->pieces[i];
      const std::string first = std::to_string(piece.first_row) + "\n";
      EXPECT_EQ(text.substr(piece.offset, first.size()), first);
      const std::uint64_t end = i + 1 < rows->pieces.size() ? rows->pieces[i + 1].offset : text.size();
      EXPECT_LT(end - piece.offset, file_piece::bytes + std::string("149999\n").size());
      values += piece.values;
    }
    EXPECT_EQ(values, rows->block_values[block]);
  }
}

TEST(RowStream, EverySelectedRowHasItsBlock) {
  const temporary_file file(text_of(500));
  const auto which = row_selection::held_out(0.05);
  const row_stream stream(rows_of(file, {3, 2}), which);
  std::uint64_t selected = 0;
  for (std::uint64_t row = 0; row < 500; ++row) {
    if (!which(row)) continue;
    EXPECT_EQ(stream.block_of(selected), row / 6);
    EXPECT_LE(stream.first_row(row / 6), selected);
    ++selected;
  }
  EXPECT_EQ(stream.rows(), selected);
  EXPECT_GT(selected, 10U);
}

TEST(RowStream, AShareIsHeldOutAndTheRestKept) {
  const auto held_out = row_selection::held_out(0.2);
  const auto kept = row_selection::kept(0.2);
  int count = 0;
  for (std::uint64_t row = 0; row < 100'000; ++row) {
    EXPECT_NE(held_out(row), kept(row));
    count += held_out(row) ? 1 : 0;
  }
  EXPECT_NEAR(count, 20'000, 500);
  EXPECT_TRUE(row_selection::kept(0)(3));
  EXPECT_FALSE(row_selection::held_out(0)(3));
}

TEST(RowStream, ThreadsThatAskAtOnceGetTheSameBlocks) {
  const temporary_file file(gzip(text_of(3000)));
  const row_stream stream(rows_of(file, {10, 3}), row_selection::all(), 2);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&stream, t] {
      random_sequence random(t);
      for (int i = 0; i < 200; ++i) {
        // Some read the file in order, each from another offset; some jump.
        const std::uint64_t number = t < 5 ? (t * 20 + static_cast<std::uint64_t>(i)) % 100 : random.below(100);
        const auto block = stream.block(number);
        ASSERT_TRUE(block.has_value());
        ASSERT_EQ((*block)->rows, 30U);
        ASSERT_EQ((*block)->records[29], number * 30 + 29);
      }
    });
  }
}

TEST(RowStream, HoldsFewBlocksAndReadsEachOnceForCallersCloseTogether) {
  const temporary_file file(text_of(1000));
  const row_stream stream(rows_of(file, {10, 1}), row_selection::all(), 4);
  std::vector<std::weak_ptr<const row_block>> blocks;
  for (std::uint64_t number = 0; number < 100; ++number) {
    blocks.emplace_back(*stream.block(number));
    // A reader that is one block behind.
    if (number > 0) {
      const auto before = blocks[number - 1].lock();
      ASSERT_NE(before, nullptr);
      EXPECT_EQ(stream.block(number - 1), before);
    }
    const auto held = std::ranges::count_if(blocks, [](const auto& block) { return !block.expired(); });
    EXPECT_LE(static_cast<std::size_t>(held), row_stream::blocks_kept);
  }
}

TEST(RowStream, ABadLineIsAFaultOfItsBlockAlone) {
  std::string text = text_of(100);
  text.replace(text.find("\n57\n"), 4, "\n5x\n");
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const temporary_file file(bytes);
    const row_stream stream(rows_of(file, {10, 1}), row_selection::all());
    for (int round = 0; round < 2; ++round) {
      expect_block(stream, 4, row_selection::all());
      EXPECT_EQ(refusal(stream.block(5)), file.path() + " line 58: '5x'");
      expect_block(stream, 6, row_selection::all());
      expect_block(stream, 9, row_selection::all());
      expect_block(stream, 0, row_selection::all());
      expect_block(stream, 1, row_selection::all());
    }
  }
}

// Two bad lines in each of two pieces of a block: the first line is named, whichever thread reads faster.
TEST(RowStream, OfSeveralBadLinesTheFirstOneIsNamed) {
  std::string text = text_of(150'000);
  for (const std::string line : {"\n60000\n", "\n60001\n", "\n120000\n", "\n120001\n"})
    text[text.find(line) + line.size() - 2] = 'x';
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const temporary_file file(bytes);
    const auto rows = rows_of(file, {150'000, 1});
    ASSERT_GT(rows->pieces.size(), 3U);
    for (int round = 0; round < 4; ++round) {
      const row_stream stream(rows, row_selection::all(), 4);
      EXPECT_EQ(refusal(stream.block(0)), file.path() + " line 60001: '6000x'");
    }
  }
}

TEST(RowStream, AFileThatIsWrittenToIsAFault) {
  for (const auto& bytes : {text_of(100), gzip(text_of(100))}) {
    const temporary_file file(bytes);
    const row_stream stream(rows_of(file, {5, 1}), row_selection::all(), 3);
    expect_block(stream, 0, row_selection::all());
    file.write(bytes.substr(0, bytes.size() / 2));
    EXPECT_EQ(
        refusal(stream.block(15)),
        fmt::format("{}: changed since the run opened it, from {} to {} bytes; leave a file alone while a run reads it",
                    file.path(), bytes.size(), bytes.size() / 2));
  }
}

TEST(RowStream, AFileReplacedByAnotherStaysAsItWas) {
  const temporary_file file(text_of(100));
  const row_stream stream(rows_of(file, {5, 1}), row_selection::all());
  ::unlink(file.path().c_str());
  file.write("something else\n");
  for (std::uint64_t number = 0; number < 20; ++number) expect_block(stream, number, row_selection::all());
}

TEST(RowStream, TheLargestBlocksWithTheirBagsMustFitInMemory) {
  // Each row has a label and a bag, 12 bytes. Blocks 0 to 8 have 45 values; block 9 has 90 and is among the five in
  // memory. Its values and bag offsets exist twice while its pieces are merged.
  std::string text = text_of(90);
  for (int row = 0; row < 10; ++row) text += "9\n";
  const temporary_file file(text);
  const auto rows = rows_of(file, {10, 1});
  constexpr std::uint64_t bytes = 50 * 12 + (90 + 4 * 45 + 90) * 4 + 10 * 8;
  EXPECT_EQ(bytes_of_blocks(*rows), bytes);
  EXPECT_EQ(check_blocks(*rows, bytes), std::nullopt);
  EXPECT_EQ(check_blocks(*rows, bytes - 1).value_or(""),
            file.path() +
                ": 50 rows in memory at once with 270 values in their bags would take 2.1 KiB, and 2.1 KiB of "
                "memory are available; use shorter bags");
}

TEST(RowStream, WhoHasTooLargeBlocksIsToldWhatMakesThemSmaller) {
  const temporary_file file(text_of(100));
  const auto ends_with = [&](row_cut cut, const std::string& advice) {
    return check_blocks(*rows_of(file, cut), 0).value_or("").ends_with("; use " + advice);
  };
  EXPECT_TRUE(ends_with({65536, 1}, "a smaller --shuffle-rows or shorter bags"));
  EXPECT_TRUE(ends_with({65536, 8}, "a smaller --batch-size or shorter bags"));
  EXPECT_TRUE(ends_with({10'000, 2}, "shorter bags"));
}

TEST(RowStream, CanEndWhileItReads) {
  const temporary_file file(gzip(text_of(200'000)));
  const auto rows = rows_of(file, {200'000, 1});
  for (int i = 0; i < 20; ++i) {
    const row_stream stream(rows, row_selection::all(), 3);
    if (i % 2 == 0) continue;
    // One block has been read, and the next is being read.
    const row_stream other(rows_of(file, {100'000, 1}), row_selection::all(), 1 + static_cast<std::size_t>(i) % 4);
    EXPECT_TRUE(other.block(0).has_value());
  }
}

}  // namespace
}  // namespace troupe::model::row_stream_test
