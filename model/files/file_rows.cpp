#include "model/files/file_rows.hpp"

#include <span>
#include <utility>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "model/random.hpp"

namespace troupe::model {

bool row_selection::operator()(std::uint64_t row) const {
  if (share_ == 0) return !held_out_;
  static const std::uint64_t key = random_key(0, random_stream::held_out);
  return (unit_from(random_bits(key, row)) < share_) == held_out_;
}

line_reader file_rows::lines_from(std::size_t piece) const {
  const auto& [row, offset, values] = pieces[piece];
  return {open_source(file, how, offset), file->name(), offset, format->header_lines() + row};
}

line_reader file_rows::lines() const { return {open_source(file, how, 0), file->name()}; }

result<file_rows> find_rows(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                            row_cut cut) {
  TROUPE_TRY(how, compression_of(*file));
  file_rows made{std::move(file), std::move(format), cut, how, 0, {}, {}, {}, {}};
  file_digest digest;
  line_reader lines = made.lines();
  for (;;) {
    const std::uint64_t offset = lines.offset();
    TROUPE_TRY(line, lines.next());
    if (!line) break;
    digest.add(std::as_bytes(std::span(*line)));
    digest.add(std::as_bytes(std::span("\n", 1)));
    if (lines.line() <= made.format->header_lines()) continue;
    const bool begins_block = made.rows % cut.block_rows() == 0;
    if (begins_block) {
      made.block_values.push_back(0);
      made.block_pieces.push_back(made.pieces.size());
    }
    if (begins_block || offset - made.pieces.back().offset >= file_piece::bytes)
      made.pieces.push_back({made.rows, offset, 0});
    const std::uint64_t values = made.format->bag_values(*line);
    if (values > bag_values_max)
      return bad_input(
          "{} line {}: {} values in its bags: must be at most {}; shorten them, or ignore a column of kind multi",
          made.file->name(), lines.line(), values, bag_values_max);
    made.block_values.back() += values;
    made.pieces.back().values += values;
    ++made.rows;
  }
  if (made.rows == 0) {
    const char* has = made.format->header_lines() > 0 ? "a header and no rows" : "no rows";
    return bad_input("{}: {}: must have at least one", made.file->name(), has);
  }
  if (auto wrong = made.file->changed()) return tl::unexpected(std::move(*wrong));
  made.block_pieces.push_back(made.pieces.size());
  made.digest = digest.hex();
  return made;
}

}  // namespace troupe::model
