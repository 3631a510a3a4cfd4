// Data sets that are streamed from files: criteo:FILE and csv:FILE.
//
// An epoch reads the training rows window by window, in the file's order. A permutation keyed by (seed, epoch, window)
// orders the rows of a window. Rank r of W takes positions r, r + W, ... of that order.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "model/datasets.hpp"
#include "model/files/row_index.hpp"
#include "model/files/row_stream.hpp"
#include "model/input_file.hpp"
#include "model/memory.hpp"
#include "model/random.hpp"
#include "model/sampler.hpp"

namespace troupe::model {

namespace {

// Windows are read in blocks of a few steps of all ranks, so that ranks a step or two apart need at most two
// neighbouring blocks.
constexpr std::uint64_t steps_in_block = 4;

// Limit of the pieces in a row index: 80 MiB, for some 500 GB of text.
constexpr std::size_t indexed_pieces_max = std::size_t{1} << 21;

row_cut cut_for(const job& job) {
  const std::uint64_t wanted = std::max(row_cut::block_rows_min, steps_in_block * first_step_samples(job));
  return {job.shuffle_rows, (wanted + job.shuffle_rows - 1) / job.shuffle_rows};
}

class streamed final : public dataset {
 public:
  streamed(const job& job, std::shared_ptr<const file_rows> train, std::shared_ptr<const file_rows> test)
      : seed_(job.seed),
        loss_(job.loss),
        train_(std::move(train), row_selection::kept(job.test_fraction)),
        sampler_(epochs_of(job, train_.rows()), job.seed) {
    if (test != nullptr)
      test_.emplace(std::move(test),
                    job.test_file.empty() ? row_selection::held_out(job.test_fraction) : row_selection::all());
  }

  const data_spec& spec() const override { return train_.source().format->spec(); }

  epoch_plan epochs() const override { return sampler_.epochs(); }

  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    const auto share = sampler_.of(step, rank);
    batch_builder made(train_.source().format->layout(), loss_, share.size());
    const std::uint64_t epoch = sampler_.epochs().epochs_after(step);
    cursor place(train_);
    std::uint64_t window = 0;  // within its block
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < share.size(); ++i) {
      const std::uint64_t position = share.position(i);
      bool moved = false;
      if (!place.has(position)) {
        if (auto wrong = place.move_to(position)) return tl::unexpected(std::move(*wrong));
        window = 0;
        moved = true;
      }
      const auto& begin = place.rows().window_begin;
      const std::uint64_t row = position - place.first();
      for (; row >= begin[window + 1]; ++window) moved = true;
      if (moved) {
        const std::uint64_t number = place.block() * train_.source().cut.windows_in_block + window;
        key = random_key(seed_, random_stream::window_shuffle, epoch, number);
      }
      const std::uint64_t size = begin[window + 1] - begin[window];
      made.add(place.rows(), begin[window] + shuffled(size, key, row - begin[window]));
    }
    return std::move(made).finish();
  }

  std::string digest() const override {
    const std::string& of_train = train_.source().digest;
    return test_ && test_->source().file != train_.source().file ? of_train + test_->source().digest : of_train;
  }

  /// The number of words in the training file's index, that index, then the test file's. Empty if there are too many
  /// pieces.
  std::vector<std::uint64_t> row_index() const override {
    const auto pieces = train_.source().pieces.size() + (test_ ? test_->source().pieces.size() : 0);
    if (pieces > indexed_pieces_max) return {};
    std::vector<std::uint64_t> all(1);
    const auto add = [&all](const file_rows& of) {
      const auto index = row_index_of(of);
      all.insert(all.end(), index.begin(), index.end());
    };
    add(train_.source());
    all[0] = all.size() - 1;
    if (test_ && test_->source().file != train_.source().file) add(test_->source());
    return all;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    const auto report = [&all](const file_rows& of) {
      if (of.blank_lines > 0)
        all.push_back(fmt::format("{}: {} blank line{} passed over, the first of them line {}", of.file->name(),
                                  of.blank_lines, of.blank_lines == 1 ? "" : "s", of.first_blank_line));
    };
    report(train_.source());
    if (test_ && test_->source().file->name() != train_.source().file->name()) report(test_->source());
    return all;
  }

  std::optional<std::uint64_t> train_rows() const override { return train_.rows(); }

  std::uint64_t test_rows() const override { return test_ ? test_->rows() : 0; }

  result<batch> test_batch(std::uint64_t first, std::size_t count) const override {
    if (!test_) return dataset::test_batch(first, count);
    batch_builder made(test_->source().format->layout(), loss_, count);
    cursor place(*test_);
    for (std::uint64_t row = first; row < first + count; ++row) {
      if (!place.has(row)) {
        if (auto wrong = place.move_to(row)) return tl::unexpected(std::move(*wrong));
      }
      made.add(place.rows(), row - place.first());
    }
    return std::move(made).finish();
  }

 private:
  // Holds the block of the current row.
  class cursor {
   public:
    explicit cursor(const row_stream& of) : of_(of) {}

    bool has(std::uint64_t row) const { return rows_ != nullptr && row >= first_ && row - first_ < rows_->rows; }

    std::optional<fault> move_to(std::uint64_t row) {
      block_ = of_.block_of(row);
      auto rows = of_.block(block_);
      if (!rows) return std::move(rows.error());
      rows_ = std::move(*rows);
      first_ = of_.first_row(block_);
      return std::nullopt;
    }

    std::uint64_t block() const { return block_; }
    std::uint64_t first() const { return first_; }
    const row_block& rows() const { return *rows_; }

   private:
    const row_stream& of_;
    std::uint64_t block_ = 0;
    std::uint64_t first_ = 0;
    std::shared_ptr<const row_block> rows_;
  };

  std::uint64_t seed_;
  loss_kind loss_;
  row_stream train_;
  std::optional<row_stream> test_;
  sharded_sampler sampler_;
};

// -- opening ---------------------------------------------------------------------------------------------------------

std::string path_of(const job& job) { return job.data.substr(job.data.find(':') + 1); }

// Returns whether the beginning of a file's text has CR line ends, which make it a single line.
bool has_cr_line_ends(std::shared_ptr<const input_file> file) {
  const auto how = compression_of(*file);
  if (!how) return false;
  const auto source = open_source(std::move(file), *how, 0);
  std::string text(line_reader::line_max, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto got = source->read(text.data() + size, text.size() - size);
    if (!got || *got == 0) break;
    size += *got;
  }
  text.resize(size);
  const std::size_t cr = text.find('\r');
  return cr < text.find_last_not_of("\r\n") && text.find('\n') >= text.find_last_not_of("\r\n");
}

result<file_rows> read_rows(const job& job, std::shared_ptr<const input_file> file,
                            std::span<const std::uint64_t> index) {
  const bool is_csv = job.data.starts_with(csv_prefix);
  TROUPE_ASSERT(is_csv || job.data.starts_with(criteo_prefix));
  std::shared_ptr<const row_format> format = criteo_format(job);
  if (is_csv) TROUPE_SET(format, csv_format(job, file));
  return index.empty() ? find_rows(std::move(file), std::move(format), cut_for(job))
                       : rows_by_index(std::move(file), std::move(format), cut_for(job), index);
}

result<std::shared_ptr<const file_rows>> open_rows(const job& job, const std::string& path,
                                                   std::span<const std::uint64_t> index) {
  TROUPE_TRY(file, open_data_file(path));
  auto rows = read_rows(job, file, index);
  if (rows) return std::make_shared<const file_rows>(std::move(*rows));
  if (!has_cr_line_ends(file)) return tl::unexpected(std::move(rows.error()));
  return bad_input("{}: has CR line ends: lines must end with LF or CR LF; write it anew, such as by tr '\\r' '\\n'",
                   file->name());
}

// Refuses blocks that do not fit into memory, before they are read. `test` may be null, or `train` itself; then both
// streams have different rows of the same blocks.
std::optional<std::string> check_memory(const file_rows& train, const file_rows* test) {
  const std::uint64_t available = available_memory();
  if (auto wrong = check_blocks(train, available)) return wrong;
  if (test == nullptr || test == &train) return std::nullopt;
  return check_blocks(*test, available - bytes_of_blocks(train));
}

std::optional<std::string> check_sizes(const job& job, const std::string& file, const streamed& data) {
  const std::uint64_t rows = data.train_rows().value();
  if (job.test_fraction > 0 && (rows == 0 || data.test_rows() == 0))
    return fmt::format("--test-fraction {}: leaves {} training rows and {} test rows of {}; must leave some of both",
                       job.test_fraction, rows, data.test_rows(), file);
  return check_share(job, rows, file);
}

result<std::unique_ptr<const streamed>> open_streamed(const job& job, std::span<const std::uint64_t> row_index) {
  std::span<const std::uint64_t> of_train;
  std::span<const std::uint64_t> of_test;
  if (!row_index.empty()) {
    const std::uint64_t words = row_index[0];
    if (words == 0 || words >= row_index.size() || (words + 1 < row_index.size()) != !job.test_file.empty())
      return bad_input("--data {}: the master's index of its rows is damaged", job.data);
    of_train = row_index.subspan(1, words);
    of_test = row_index.subspan(1 + words);
  }
  TROUPE_TRY(train, open_rows(job, path_of(job), of_train));
  std::shared_ptr<const file_rows> test = job.test_fraction > 0 ? train : nullptr;
  if (!job.test_file.empty()) TROUPE_SET(test, open_rows(job, job.test_file, of_test));
  if (auto wrong = check_memory(*train, test.get())) return bad_input(std::move(*wrong));
  const std::string name = train->file->name();
  try {
    auto made = std::make_unique<const streamed>(job, std::move(train), std::move(test));
    if (auto wrong = check_sizes(job, name, *made)) return bad_input(std::move(*wrong));
    return made;
  } catch (const std::system_error& error) {
    return tl::unexpected(fault{fault_kind::run, fmt::format("{}: no thread to read it: {}", name, error.what())});
  }
}

// The key under which the data sets of a job's files are shared.
struct job_files {
  job what;
  file_identity train;
  file_identity test;

  bool operator==(const job_files&) const = default;
};

}  // namespace

result<std::shared_ptr<const dataset>> open_files(const job& job, std::span<const std::uint64_t> row_index) {
  static shared_while_held<job_files, std::unique_ptr<const streamed>> shared;
  auto held = shared.get({job, identity_of(path_of(job)), identity_of(job.test_file)},
                         [&] { return open_streamed(job, row_index); });
  if (!held) return tl::unexpected(std::move(held.error()));
  return std::shared_ptr<const dataset>(*held, (*held)->get());
}

}  // namespace troupe::model
