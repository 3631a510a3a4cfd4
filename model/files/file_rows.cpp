#include "model/files/file_rows.hpp"

#include <bit>
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

void lines_digest::add(std::string_view line) {
  constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;
  value_ = std::rotl(value_, 23) * odd + digest_of(std::as_bytes(std::span(line)));
}

line_reader file_rows::lines_from(std::size_t piece) const {
  const file_piece& one = pieces[piece];
  return {open_source(file, how, one.offset), file->name(), one.offset, one.lines_before};
}

line_reader file_rows::lines() const { return {open_source(file, how, 0), file->name()}; }

void file_rows::count_blocks() {
  block_values.assign(blocks(), 0);
  block_pieces.assign(blocks() + 1, pieces.size());
  for (std::size_t piece = pieces.size(); piece-- > 0;) {
    const std::uint64_t block = pieces[piece].first_row / cut.block_rows();
    block_values[block] += pieces[piece].values;
    block_pieces[block] = piece;
  }
}

result<file_rows> find_rows(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                            row_cut cut) {
  TROUPE_TRY(how, compression_of(*file));
  file_rows made{.file = std::move(file), .format = std::move(format), .cut = cut, .how = how};
  running_digest digest;
  lines_digest of_header;
  lines_digest of_piece;
  line_reader lines = made.lines();
  for (;;) {
    const std::uint64_t offset = lines.offset();
    const std::uint64_t lines_before = lines.line();
    TROUPE_TRY(line, lines.next());
    if (!line) break;
    digest.add(std::as_bytes(std::span(*line)));
    digest.add(std::as_bytes(std::span("\n", 1)));
    if (lines.returned() <= made.format->header_lines()) {
      of_header.add(*line);
      continue;
    }
    const bool begins_block = made.rows % cut.block_rows() == 0;
    if (begins_block || offset - made.pieces.back().offset >= file_piece::bytes) {
      made.pieces.push_back({.first_row = made.rows, .offset = offset, .lines_before = lines_before});
      of_piece = {};
    }
    std::uint64_t values = 0;
    if (auto wrong = made.format->check(*line, values))
      return bad_input("{} line {}: {}", made.file->name(), lines.line(), *wrong);
    if (values > bag_values_max)
      return bad_input(
          "{} line {}: {} values in its bags: must be at most {}; shorten them, or ignore a column of kind multi",
          made.file->name(), lines.line(), values, bag_values_max);
    of_piece.add(*line);
    made.pieces.back().values += values;
    made.pieces.back().digest = of_piece.value();
    ++made.rows;
  }
  if (made.rows == 0) {
    const char* has = made.format->header_lines() > 0 ? "a header and no rows" : "no rows";
    return bad_input("{}: {}: must have at least one", made.file->name(), has);
  }
  if (auto wrong = made.file->changed()) return tl::unexpected(std::move(*wrong));
  made.blank_lines = lines.blank_lines();
  made.first_blank_line = lines.first_blank_line();
  made.window = lines.window();
  made.digest = digest.hex();
  made.header_digest = of_header.value();
  made.count_blocks();
  return made;
}

}  // namespace troupe::model
