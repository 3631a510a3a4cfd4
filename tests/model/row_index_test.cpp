// Goal: a data set opened with another process's row index is the same, without a scan of its files, and a copy of a
// file that differs in any way is detected. Method: small files split into small blocks, and changed copies.

#include "model/files/row_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/data_file.hpp"

namespace troupe::model::row_index_test {
namespace {

constexpr std::uint64_t file_rows_made = 40'000;

std::string text_of(std::uint64_t rows) {
  std::string text = "y,row,m\n";
  for (std::uint64_t row = 0; row < rows; ++row)
    text += fmt::format("{},{},{}\n", row % 3 == 0 ? 1 : 0, 100'000 + row, row % 2 == 0 ? "a" : "b|c");
  return text;
}

const std::string columns = R"([{"name": "y", "kind": "label"}, {"name": "row", "kind": "numeric"},
                               {"name": "m", "kind": "multi"}])";

job job_of(const std::string& path, const std::vector<setting>& more = {}) {
  std::vector<setting> settings{
      {"data", "csv:" + path}, {"columns", columns}, {"rows", "1000"}, {"shuffle-rows", "500"},
      {"batch-size", "1000"},  {"trainers", "1"},    {"seed", "9"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return parse_job(settings).value();
}

/// The numbers of the rows in the first batches, one per block; a failed batch gives its error.
std::vector<std::string> batches_of(const dataset& data) {
  std::vector<std::string> all;
  for (std::uint64_t step = 0; step < data.steps_per_epoch(); step += 4) {
    const auto made = data.train_batch(step, 0);
    all.push_back(made ? fmt::format("{}", fmt::join(made->dense, " ")) : made.error().message);
  }
  return all;
}

std::string message_of(const result<std::shared_ptr<const dataset>>& from) {
  return from ? std::string() : from.error().message;
}

class RowIndex : public testing::Test {
 protected:
  const std::string text_ = text_of(file_rows_made);
  const temporary_file file_{text_};
  const std::shared_ptr<const dataset> read_ = open_dataset(job_of(file_.path())).value();
  const std::vector<std::uint64_t> index_ = read_->row_index();
};

TEST_F(RowIndex, GivesTheSameDataSet) {
  for (const std::string& bytes : {text_, gzip(text_), zstd(text_)}) {
    const temporary_file master(bytes);
    const temporary_file copy(bytes);
    const temporary_file test_rows(text_of(700));
    for (const std::vector<setting>& more :
         {std::vector<setting>{}, {{"test-fraction", "0.2"}}, {{"test-file", test_rows.path()}}}) {
      const auto read = open_dataset(job_of(master.path(), more)).value();
      const auto told = open_dataset(job_of(copy.path(), more), read->row_index()).value();
      EXPECT_EQ(told->digest(), read->digest());
      EXPECT_EQ(told->train_rows(), read->train_rows());
      EXPECT_EQ(told->test_rows(), read->test_rows());
      EXPECT_EQ(batches_of(*told), batches_of(*read));
      EXPECT_EQ(told->row_index(), read->row_index()) << "it can be passed on";
      if (read->test_rows() == 0) continue;
      EXPECT_EQ(told->test_batch(5, 100).value().dense, read->test_batch(5, 100).value().dense);
    }
  }
}

TEST_F(RowIndex, SparesTheReadingAndFindsADifferenceWhenItIsRead) {
  std::string other = text_;
  const std::size_t place = other.find(std::to_string(100'000 + 20'000));
  other[place + 5] = '7';  // in the second block; blocks have 16,384 rows and more
  const temporary_file copy(other);
  const auto told = open_dataset(job_of(copy.path()), index_).value();
  const auto expected = batches_of(*read_);
  const auto batches = batches_of(*told);
  ASSERT_EQ(batches.size(), expected.size());
  EXPECT_EQ(batches.front(), expected.front());
  EXPECT_EQ(batches.back(), expected.back());
  const auto changed = std::ranges::find_if(batches, [](const auto& one) { return one.find("not those") != one.npos; });
  ASSERT_NE(changed, batches.end());
  EXPECT_TRUE(changed->starts_with(copy.path() + ": lines ")) << *changed;
  EXPECT_NE(changed->find("are not those that the master has read; use the same file on all hosts"), changed->npos);
}

TEST_F(RowIndex, TellsTheLinesOfFaultsInFilesWithBlankLines) {
  std::string text = "\ny,row,m\n\n";
  for (std::uint64_t row = 0; row < file_rows_made; ++row)
    text += row == 30'000 ? "2,0,a\n" : row % 100 == 0 ? "1,0,a\n\n" : "1,0,a\n";
  for (const std::string& bytes : {text, zstd(text)}) {
    const temporary_file file(bytes);
    const auto read = open_dataset(job_of(file.path())).value();
    const temporary_file copy(bytes);
    const auto told = open_dataset(job_of(copy.path()), read->row_index()).value();
    const std::string expected = " line 30304: column 1 (y): 2: must be 0 or 1";
    EXPECT_EQ(read->train_batch(30, 0).error().message, file.path() + expected);
    EXPECT_EQ(told->train_batch(30, 0).error().message, copy.path() + expected);
    EXPECT_TRUE(told->notes().empty()) << "the reader of the whole file reports them";
  }
}

TEST_F(RowIndex, IsOfAFileOfThatLengthAndHeader) {
  const temporary_file longer(text_ + "0,1,a\n");
  EXPECT_EQ(message_of(open_dataset(job_of(longer.path()), index_)),
            fmt::format("{}: has {} bytes here and {} where the master has read it; use the same file on all hosts",
                        longer.path(), text_.size() + 6, text_.size()));
  std::string other = text_;
  std::swap(other[0], other[6]);  // m,row,y: known columns in another order
  const temporary_file turned(other);
  EXPECT_EQ(message_of(open_dataset(job_of(turned.path()), index_)),
            turned.path() + ": its header is not the one that the master has read; use the same file on all hosts");
}

TEST_F(RowIndex, IsRefusedOrFoundOutIfDamaged) {
  const auto expected = batches_of(*read_);
  const temporary_file copy(text_);
  for (std::size_t length = 1; length < index_.size(); ++length)
    EXPECT_FALSE(open_dataset(job_of(copy.path()), std::span(index_).first(length)).has_value()) << length;
  constexpr std::size_t window = 1 + 5;
  constexpr std::size_t first_of_digest = 1 + 7;
  constexpr std::size_t first_of_pieces = first_of_digest + 4;
  for (std::size_t place = 0; place < index_.size(); ++place) {
    for (const std::uint64_t word : {std::uint64_t{0}, index_[place] + 1, index_[place] - 1, ~std::uint64_t{0}}) {
      const std::size_t of_piece = place >= first_of_pieces ? (place - first_of_pieces) % 5 : 0;
      const bool is_more_memory = (place == window || of_piece == 3) && word > index_[place];
      const bool is_for_messages = of_piece == 2;                           // the lines before a piece
      const bool is_line_end = of_piece == 1 && word + 1 == index_[place];  // as if one line were blank
      if (word == index_[place] || is_more_memory || is_for_messages || is_line_end) continue;
      auto damaged = index_;
      damaged[place] = word;
      const auto told = open_dataset(job_of(copy.path()), damaged);
      if (!told || (place >= first_of_digest && place < first_of_digest + 4)) continue;  // trainers compare digests
      EXPECT_NE(batches_of(**told), expected) << "word " << place << " is " << word;
    }
  }
}

}  // namespace
}  // namespace troupe::model::row_index_test
