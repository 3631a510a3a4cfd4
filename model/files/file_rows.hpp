// The locations of a file's rows, found by reading the file once.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/byte_source.hpp"
#include "model/files/line_reader.hpp"
#include "model/files/rows.hpp"

namespace troupe::model {

/// Selects rows of a file: all, those held out for evaluation, or the others. A hash of the row number decides whether
/// a row is held out.
class row_selection {
 public:
  static row_selection all() { return {0, false}; }
  /// Holds out `share` of the rows.
  static row_selection held_out(double share) { return {share, true}; }
  static row_selection kept(double share) { return {share, false}; }

  bool operator()(std::uint64_t row) const;

 private:
  row_selection(double share, bool held_out) : share_(share), held_out_(held_out) {}

  double share_;
  bool held_out_;
};

/// Cuts a file into windows, within which rows are shuffled, and into blocks of whole windows, which are read at once.
/// Both count all rows of the file.
struct row_cut {
  /// The minimum of a block's rows, also for small windows and steps.
  static constexpr std::uint64_t block_rows_min = 16384;

  std::uint64_t window_rows = 1;
  std::uint64_t windows_in_block = 1;

  std::uint64_t block_rows() const { return window_rows * windows_in_block; }
};

/// Consecutive rows of a block that one thread parses at a time.
struct file_piece {
  /// A piece ends soon after this many bytes of text: few enough for many pieces in a block, and usually for a single
  /// read.
  static constexpr std::uint64_t bytes = std::uint64_t{240} << 10;

  std::uint64_t first_row = 0;
  /// The byte of the text at which the piece begins, and the number of lines before it.
  std::uint64_t offset = 0;
  std::uint64_t lines_before = 0;
  /// The number of values in the bags of its rows.
  std::uint64_t values = 0;
  /// `lines_digest` of its rows.
  std::uint64_t digest = 0;
};

/// The digest of a sequence of lines, without their ends.
class lines_digest {
 public:
  void add(std::string_view line);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// A file, its row format, and the locations of its rows. Immutable. Thread: any.
struct file_rows {
  std::shared_ptr<const input_file> file;
  std::shared_ptr<const row_format> format;
  row_cut cut = {};
  compression how = compression::none;
  std::uint64_t rows = 0;
  /// The digest of all lines, including the header.
  std::string digest = {};
  std::uint64_t header_digest = 0;
  /// The number of blank lines, which are no rows, and the first one's line number. Unknown if another process has
  /// found the rows.
  std::uint64_t blank_lines = 0;
  std::uint64_t first_blank_line = 0;
  /// The bytes of the window needed for decompression.
  std::uint64_t window = 0;
  std::vector<file_piece> pieces = {};
  /// Whether another process has found the rows: then the pieces' digests are checked when they are read.
  bool is_unread = false;
  /// The number of values in the bags of each block's rows, by block.
  std::vector<std::uint64_t> block_values = {};
  /// Each block's first piece, by block; the last element is the number of pieces.
  std::vector<std::size_t> block_pieces = {};

  std::uint64_t blocks() const { return (rows + cut.block_rows() - 1) / cut.block_rows(); }

  /// Returns the first row after piece `piece`.
  std::uint64_t end_row(std::size_t piece) const {
    return piece + 1 < pieces.size() ? pieces[piece + 1].first_row : rows;
  }

  /// Returns the lines of a plain file from the first row of piece `piece` on.
  line_reader lines_from(std::size_t piece) const;

  /// Returns all lines.
  line_reader lines() const;

  /// Sets the members that are by block. Requires: each block begins with a piece.
  void count_blocks();
};

/// Reads the whole file once, without parsing values. Faults: no rows, a row with more than `bag_values_max` values in
/// its bags, those of `row_format::check`, and those of `line_reader` and `byte_source`.
result<file_rows> find_rows(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                            row_cut cut);

}  // namespace troupe::model
