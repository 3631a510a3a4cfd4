#include "model/files/block_reader.hpp"

#include <algorithm>
#include <utility>

#include "base/result.hpp"

namespace troupe::model {

result<row_block> block_reader::read(std::uint64_t number, const std::atomic<bool>& cancelled) {
  pass& used = pass_to(number);
  auto rows = read_rows(used, number, cancelled);
  if (!rows) passes_.pop_front();
  // If the file has changed, this is the fault to report, instead of its consequences.
  if (auto wrong = from_.file->changed()) return tl::unexpected(std::move(*wrong));
  return rows;
}

// Returns the pass nearest before the block, moved to the front of the list.
block_reader::pass& block_reader::pass_to(std::uint64_t block) {
  const std::uint64_t row = block * from_.cut.block_rows();
  if (from_.how == compression::none) {
    if (passes_.empty() || passes_.front().next_row != row) {
      passes_.clear();
      passes_.push_front({from_.lines_from(block), row});
    }
    return passes_.front();
  }
  auto best = passes_.end();
  for (auto it = passes_.begin(); it != passes_.end(); ++it)
    if (it->next_row <= row && (best == passes_.end() || it->next_row > best->next_row)) best = it;
  if (best != passes_.end()) {
    passes_.splice(passes_.begin(), passes_, best);
  } else {
    if (passes_.size() == passes_kept) passes_.pop_back();
    passes_.push_front({from_.lines_from(0), 0});
  }
  return passes_.front();
}

result<row_block> block_reader::read_rows(pass& from, std::uint64_t number, const std::atomic<bool>& cancelled) const {
  const std::uint64_t first = number * from_.cut.block_rows();
  const std::uint64_t end = std::min(first + from_.cut.block_rows(), from_.rows);
  std::uint64_t selected = 0;
  for (std::uint64_t row = first; row < end; ++row) selected += which_(row) ? 1 : 0;

  row_block made;
  const std::size_t width = from_.format->layout().width();
  made.records.resize(selected * width);
  made.bags.begin.reserve(selected * from_.format->layout().bags + 1);
  // Reserves the exact number: a growing vector would use up to three times as much memory.
  made.bags.rows.reserve(from_.block_values[number]);
  while (from.next_row < end) {
    const std::uint64_t row = from.next_row++;
    constexpr std::uint64_t rows_between_looks = 1024;
    if (row % rows_between_looks == 0 && cancelled) return bad_input("cancelled");
    TROUPE_TRY(line, next_line(from));
    if (row < first) continue;
    if ((row - first) % from_.cut.window_rows == 0) made.window_begin.push_back(made.rows);
    if (!which_(row)) continue;
    if (auto wrong = from_.format->parse(line, made.records.data() + made.rows * width, made.bags))
      return bad_input("{} line {}: {}", from_.file->name(), from.lines.line(), *wrong);
    if (made.bags.rows.size() > from_.block_values[number])
      return bad_input(
          "{} line {}: more values in bags than before: it has changed since the run opened it; leave a file alone "
          "while a run reads it",
          from_.file->name(), from.lines.line());
    ++made.rows;
  }
  made.window_begin.push_back(made.rows);
  return made;
}

result<std::string_view> block_reader::next_line(pass& from) const {
  for (;;) {
    TROUPE_TRY(line, from.lines.next());
    if (!line)
      return bad_input(
          "{}: ends after line {}, before all of its {} rows: it has changed since the run opened it; leave a file "
          "alone while a run reads it",
          from_.file->name(), from.lines.line(), from_.rows);
    if (from.lines.line() > from_.format->header_lines()) return *line;
  }
}

}  // namespace troupe::model
