#include "model/files/block_reader.hpp"

#include <fmt/format.h>

#include <memory>
#include <new>
#include <utility>

#include "base/result.hpp"

namespace troupe::model {

namespace {

// Returns the number of selected rows before each piece, and the total.
std::vector<std::uint64_t> count_rows(const file_rows& from, row_selection which) {
  std::vector<std::uint64_t> before(1, 0);
  std::uint64_t row = 0;
  for (std::size_t piece = 0; piece < from.pieces.size(); ++piece) {
    std::uint64_t selected = before.back();
    for (; row < from.end_row(piece); ++row) selected += which(row) ? 1 : 0;
    before.push_back(selected);
  }
  return before;
}

}  // namespace

void block_reader::copied_lines::clear() {
  text_.clear();
  ends_.clear();
  next_ = 0;
  wrong_.reset();
}

void block_reader::copied_lines::add(std::string_view line, std::uint64_t number) {
  text_ += line;
  ends_.push_back({text_.size(), number});
}

result<std::optional<std::string_view>> block_reader::copied_lines::next() {
  if (next_ == ends_.size()) {
    if (wrong_) return tl::unexpected(*wrong_);
    return std::optional<std::string_view>();
  }
  const std::size_t begin = next_ == 0 ? 0 : ends_[next_ - 1].offset;
  return std::string_view(text_).substr(begin, ends_[next_++].offset - begin);
}

block_reader::block_reader(const file_rows& from, row_selection which)
    : from_(from), which_(which), rows_before_(count_rows(from, which)) {}

void block_reader::begin(std::uint64_t number) {
  first_row_ = number * from_.cut.block_rows();
  first_piece_ = from_.block_pieces[number];
  const std::size_t end = from_.block_pieces[number + 1];
  const std::uint64_t windows =
      (from_.end_row(end - 1) - first_row_ + from_.cut.window_rows - 1) / from_.cut.window_rows;
  made_ = {};
  made_.rows = rows_before(number + 1) - rows_before(number);
  // Each thread is the first to write its own part, so that none waits while another clears the memory.
  made_.records = std::make_unique_for_overwrite<std::uint32_t[]>(made_.rows * from_.format->layout().width());
  made_.window_begin.assign(windows + 1, made_.rows);
  parts_.clear();
  parts_.resize(end - first_piece_);
  if (from_.how != compression::none) passes_.splice(passes_.begin(), passes_, pass_to(first_row_));
  no_memory_ = false;
  next_ = first_piece_;
  end_ = end;
}

// Returns the pass that is closest before row `row`.
std::list<block_reader::pass>::iterator block_reader::pass_to(std::uint64_t row) {
  auto best = passes_.end();
  for (auto it = passes_.begin(); it != passes_.end(); ++it)
    if (it->next_row <= row && (best == passes_.end() || it->next_row > best->next_row)) best = it;
  if (best != passes_.end()) return best;
  if (passes_.size() == passes_kept(from_)) passes_.pop_back();
  passes_.push_front({from_.lines(), 0});
  return passes_.begin();
}

void block_reader::help(const std::atomic<bool>& cancelled) {
  try {
    copied_lines copied;
    while (const auto piece = take(copied, cancelled)) {
      auto& wrong = parts_[*piece - first_piece_].wrong;
      if (cancelled) {
        wrong = fault{fault_kind::input, "cancelled"};
      } else if (from_.how == compression::none) {
        line_reader lines = from_.lines_from(*piece);
        wrong = parse(*piece, lines);
      } else {
        wrong = parse(*piece, copied);
      }
      if (wrong) stop();
    }
  } catch (const std::bad_alloc&) {
    no_memory_ = true;
    stop();
  }
}

// Drops the unclaimed pieces. All pieces before them are claimed, so the first fault in the file is found.
void block_reader::stop() {
  const std::lock_guard lock(taking_);
  next_ = end_.load();
}

// Claims the next piece, and copies its lines if the file is compressed.
std::optional<std::size_t> block_reader::take(copied_lines& lines, const std::atomic<bool>& cancelled) {
  const std::lock_guard lock(taking_);
  if (!has_more()) return std::nullopt;
  const std::size_t piece = next_++;
  if (from_.how != compression::none) copy(piece, lines, cancelled);
  return piece;
}

void block_reader::copy(std::size_t piece, copied_lines& to, const std::atomic<bool>& cancelled) {
  pass& from = passes_.front();
  to.clear();
  while (from.next_row < from_.end_row(piece)) {
    constexpr std::uint64_t rows_between_looks = 1024;
    if (from.next_row % rows_between_looks == 0 && cancelled) break;
    auto line = next_line(from);
    if (!line) to.end_with(std::move(line.error()));
    if (!line || !*line) break;
    if (from.next_row++ >= from_.pieces[piece].first_row) to.add(**line, from.lines.line());
  }
  to.complete();
}

result<std::optional<std::string_view>> block_reader::next_line(pass& from) const {
  for (;;) {
    auto line = from.lines.next();
    if (!line || !*line || from.lines.returned() > from_.format->header_lines()) return line;
  }
}

// Parses the selected rows of a piece into its part of the block.
template <class Lines>
std::optional<fault> block_reader::parse(std::size_t piece, Lines& lines) {
  const row_layout& layout = from_.format->layout();
  part& to = parts_[piece - first_piece_];
  // Reserves the exact number: a growing vector would use up to three times as much memory.
  to.bags.begin.reserve((rows_before_[piece + 1] - rows_before_[piece]) * layout.bags + 1);
  to.bags.rows.reserve(from_.pieces[piece].values);
  std::uint64_t made = rows_before_[piece] - rows_before_[first_piece_];
  lines_digest digest;
  for (std::uint64_t row = from_.pieces[piece].first_row; row < from_.end_row(piece); ++row) {
    const std::uint64_t in_block = row - first_row_;
    if (in_block % from_.cut.window_rows == 0) made_.window_begin[in_block / from_.cut.window_rows] = made;
    auto line = lines.next();
    if (!line) return std::move(line.error());
    if (!*line)
      return fault{fault_kind::input,
                   fmt::format("{}: ends after line {}, before all of its {} rows: it has changed since the run opened "
                               "it; leave a file alone while a run reads it",
                               from_.file->name(), lines.line(), from_.rows)};
    if (from_.is_unread) digest.add(**line);
    if (!which_(row)) continue;
    if (auto wrong = parse_line(piece, lines.line(), **line, made_.records.get() + made++ * layout.width()))
      return wrong;
  }
  if (!from_.is_unread || digest.value() == from_.pieces[piece].digest) return std::nullopt;
  return fault{fault_kind::input,
               fmt::format("{}: lines {} to {} are not those that the master has read; use the same file on all hosts",
                           from_.file->name(), from_.pieces[piece].lines_before + 1, lines.line())};
}

std::optional<fault> block_reader::parse_line(std::size_t piece, std::uint64_t number, std::string_view line,
                                              std::uint32_t* record) {
  const auto fault_of = [&](std::string_view what) {
    return fault{fault_kind::input, fmt::format("{} line {}: {}", from_.file->name(), number, what)};
  };
  row_bags& bags = parts_[piece - first_piece_].bags;
  if (const auto wrong = from_.format->parse(line, record, bags)) return fault_of(*wrong);
  if (bags.rows.size() > from_.pieces[piece].values)
    return fault_of(
        "more values in bags than before: it has changed since the run opened it; leave a file alone while a run reads "
        "it");
  return std::nullopt;
}

result<row_block> block_reader::finish() {
  if (no_memory_) {
    made_ = {};
    parts_.clear();
    if (!passes_.empty()) passes_.pop_front();
    throw std::bad_alloc();
  }
  auto rows = joined();
  if (!rows && !passes_.empty()) passes_.pop_front();
  // If the file has changed, this is the fault to report, not its consequences.
  if (auto wrong = from_.file->changed()) return tl::unexpected(std::move(*wrong));
  return rows;
}

result<row_block> block_reader::joined() {
  for (part& one : parts_)
    if (one.wrong) return tl::unexpected(std::move(*one.wrong));
  const std::size_t bags = from_.format->layout().bags;
  if (bags == 0) return std::move(made_);
  row_bags& all = made_.bags;
  std::size_t values = 0;
  for (const part& one : parts_) values += one.bags.rows.size();
  all.begin.reserve(made_.rows * bags + 1);
  all.rows.reserve(values);
  for (part& one : parts_) {
    const row_bags from = std::move(one.bags);
    const std::uint64_t before = all.rows.size();
    for (auto end = from.begin.begin() + 1; end != from.begin.end(); ++end) all.begin.push_back(before + *end);
    all.rows.insert(all.rows.end(), from.rows.begin(), from.rows.end());
  }
  return std::move(made_);
}

}  // namespace troupe::model
