// An index of a file's rows, made by reading the file once.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/files/byte_source.hpp"
#include "model/files/line_reader.hpp"
#include "model/files/rows.hpp"

namespace troupe::model {

/// Selects rows of a file: all, those held out for evaluation, or the others. A hash of a row's number decides whether
/// it is held out.
class row_selection {
 public:
  static row_selection all() { return {0, false}; }
  /// `share` of the rows is held out.
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

/// A file, its row format, and the locations of its rows. Immutable. Thread: any.
struct file_rows {
  std::shared_ptr<const input_file> file;
  std::shared_ptr<const row_format> format;
  row_cut cut;
  compression how = compression::none;
  std::uint64_t rows = 0;
  /// The digest of all lines, including the header.
  std::string digest;
  /// By block: the number of values in the bags of all its rows.
  std::vector<std::uint64_t> block_values;
  /// Plain files: the byte at which each block begins.
  std::vector<std::uint64_t> block_offsets;

  std::uint64_t blocks() const { return (rows + cut.block_rows() - 1) / cut.block_rows(); }

  /// Returns the lines from the first row of block `block` on. Requires: `block` is 0 for a compressed file.
  line_reader lines_from(std::uint64_t block) const;
};

/// Reads the whole file once. Faults: no rows, a row with more than `bag_values_max` values in its bags, and those of
/// `line_reader` and `byte_source`. It does not check lines otherwise.
result<file_rows> find_rows(std::shared_ptr<const input_file> file, std::shared_ptr<const row_format> format,
                            row_cut cut);

}  // namespace troupe::model
