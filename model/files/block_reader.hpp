// Reads blocks of a file's rows in any order, each with several threads.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/file_rows.hpp"

namespace troupe::model {

/// Reads one block at a time: `begin`, `help`, `finish`. Helping threads process its pieces in order. With a plain
/// file, each thread reads its own pieces. A compressed file can only be read from its beginning, by one thread at a
/// time, which copies a piece's lines and parses them while the next thread continues reading. A few passes over it
/// stay open: several callers that read in order each continue their own pass. Thread: `help`: any number at once; the
/// others: one at a time, while no thread helps.
class block_reader {
 public:
  block_reader(const file_rows& from, row_selection which);

  /// Returns how many passes over a compressed file stay open: one if each needs much memory for its window.
  static std::size_t passes_kept(const file_rows& of) { return of.window > zstd_usual_window_max ? 1 : 4; }

  /// Returns the number of selected rows before block `number`, which may be one past the last.
  std::uint64_t rows_before(std::uint64_t number) const { return rows_before_[from_.block_pieces[number]]; }

  /// Begins to read block `number`.
  void begin(std::uint64_t number);

  /// Returns whether unclaimed pieces of the block are left; once false, it stays false. Thread: any.
  bool has_more() const { return next_ < end_; }

  /// Reads pieces of the block until all are claimed. Returns soon after `cancelled` has become true.
  void help(const std::atomic<bool>& cancelled);

  /// Returns the selected rows of the block. Requires: all pieces are claimed. Faults (if several, the first one in the
  /// file): a wrong line; the file has changed or cannot be read; reading was cancelled. Throws std::bad_alloc if
  /// `help` ran out of memory.
  result<row_block> finish();

 private:
  struct pass {
    line_reader lines;
    std::uint64_t next_row;
  };

  // A piece's lines of a compressed file, read like a line_reader.
  class copied_lines {
   public:
    void clear();
    void add(std::string_view line, std::uint64_t number);
    void end_with(fault wrong) { wrong_ = std::move(wrong); }
    // Makes a few bytes after the last line readable.
    void complete() { text_.append(line_reader::padding, '\0'); }
    result<std::optional<std::string_view>> next();
    std::uint64_t line() const { return next_ == 0 ? 0 : ends_[next_ - 1].line; }

   private:
    struct line_end {
      std::size_t offset = 0;
      std::uint64_t line = 0;  // its number in the file
    };

    std::string text_;
    std::vector<line_end> ends_;
    std::size_t next_ = 0;
    std::optional<fault> wrong_;  // instead of the line after the last one
  };

  // The result of reading a piece, besides the records.
  struct part {
    row_bags bags;
    std::optional<fault> wrong;
  };

  std::list<pass>::iterator pass_to(std::uint64_t row);
  std::optional<std::size_t> take(copied_lines& lines, const std::atomic<bool>& cancelled);
  void copy(std::size_t piece, copied_lines& to, const std::atomic<bool>& cancelled);
  result<std::optional<std::string_view>> next_line(pass& from) const;
  template <class Lines>
  std::optional<fault> parse(std::size_t piece, Lines& lines);
  std::optional<fault> parse_line(std::size_t piece, std::uint64_t number, std::string_view line,
                                  std::uint32_t* record);
  void stop();
  result<row_block> joined();

  const file_rows& from_;
  row_selection which_;
  std::vector<std::uint64_t> rows_before_;  // selected rows by piece; one more entry for the end
  std::list<pass> passes_;                  // of a compressed file; most recently used first

  // The block being read.
  std::uint64_t first_row_ = 0;
  std::size_t first_piece_ = 0;
  row_block made_;
  std::vector<part> parts_;
  std::mutex taking_;                  // held to claim pieces, and to read the front pass
  std::atomic<std::size_t> next_ = 0;  // the next piece to claim
  std::atomic<std::size_t> end_ = 0;   // the end of the block's pieces
  std::atomic<bool> no_memory_ = false;
};

}  // namespace troupe::model
