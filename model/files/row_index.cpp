#include "model/files/row_index.hpp"

#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace troupe::model {

namespace {

// The words of an index: those of the file, then those of each piece.
enum word : std::size_t { length, compressed_as, window_rows, windows_in_block, rows, window, header_digest, digest };
constexpr std::size_t digest_letters = 32;
constexpr std::size_t file_header_words = digest + digest_letters / sizeof(std::uint64_t);
enum word_of_piece : std::size_t { first_row, offset, lines_before, values, piece_digest, words_of_piece };

// Returns whether the pieces cut all rows of `made`, beginning a new piece with each block, and fit a file of that
// length.
bool are_in_order(const file_rows& made) {
  std::uint64_t next_block = 0;
  for (std::size_t i = 0; i < made.pieces.size(); ++i) {
    const file_piece& one = made.pieces[i];
    if (one.first_row > next_block || one.first_row >= made.end_row(i)) return false;
    if (i > 0 && one.offset <= made.pieces[i - 1].offset) return false;
    if (one.values / bag_values_max > made.end_row(i) - one.first_row) return false;
    if (one.first_row == next_block) next_block += made.cut.block_rows();
  }
  return next_block >= made.rows && (made.how != compression::none || made.pieces.back().offset < made.file->length());
}

result<std::uint64_t> digest_of_header(const file_rows& made) {
  lines_digest header;
  if (made.format->header_lines() == 0) return header.value();
  line_reader lines = made.lines();
  while (lines.returned() < made.format->header_lines()) {
    TROUPE_TRY(line, lines.next());
    if (!line) break;
    header.add(*line);
  }
  return header.value();
}

}  // namespace

std::vector<std::uint64_t> row_index_of(const file_rows& found) {
  TROUPE_ASSERT(found.digest.size() == digest_letters);
  std::vector<std::uint64_t> all(file_header_words);
  all[length] = found.file->length();
  all[compressed_as] = static_cast<std::uint64_t>(found.how);
  all[window_rows] = found.cut.window_rows;
  all[windows_in_block] = found.cut.windows_in_block;
  all[rows] = found.rows;
  all[window] = found.window;
  all[header_digest] = found.header_digest;
  std::memcpy(&all[digest], found.digest.data(), digest_letters);
  all.reserve(file_header_words + found.pieces.size() * words_of_piece);
  for (const file_piece& one : found.pieces)
    all.insert(all.end(), {one.first_row, one.offset, one.lines_before, one.values, one.digest});
  return all;
}

result<file_rows> rows_by_index(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                                row_cut cut, std::span<const std::uint64_t> index) {
  const std::string& name = file->name();
  const auto damaged = [&name] { return bad_input("{}: the master's index of its rows is damaged", name); };
  if (index.size() <= file_header_words || (index.size() - file_header_words) % words_of_piece != 0) return damaged();
  TROUPE_TRY(how, compression_of(*file));
  if (index[length] != file->length() || index[compressed_as] != static_cast<std::uint64_t>(how))
    return bad_input("{}: has {} bytes here and {} where the master has read it; use the same file on all hosts", name,
                     file->length(), index[length]);
  if (index[window_rows] != cut.window_rows || index[windows_in_block] != cut.windows_in_block) return damaged();
  file_rows made{.file = std::move(file), .format = std::move(format), .cut = cut, .how = how, .rows = index[rows]};
  made.is_unread = true;
  made.window = index[window];
  made.header_digest = index[header_digest];
  made.digest.resize(digest_letters);
  std::memcpy(made.digest.data(), &index[digest], digest_letters);
  made.pieces.reserve((index.size() - file_header_words) / words_of_piece);
  for (auto left = index.subspan(file_header_words); !left.empty(); left = left.subspan(words_of_piece))
    made.pieces.push_back({left[first_row], left[offset], left[lines_before], left[values], left[piece_digest]});
  if (!are_in_order(made)) return damaged();
  TROUPE_TRY(header, digest_of_header(made));
  if (header != made.header_digest)
    return bad_input("{}: its header is not the one that the master has read; use the same file on all hosts", name);
  made.count_blocks();
  return made;
}

}  // namespace troupe::model
