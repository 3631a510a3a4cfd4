// Reads blocks of a file's rows in any order.

#pragma once

#include <atomic>
#include <cstdint>
#include <list>

#include "model/files/file_rows.hpp"

namespace troupe::model {

/// Reads a plain file from the beginning of a block. A compressed file can only be read from its beginning, so a few
/// passes over it are kept open: several callers that read in order each continue their pass. Thread: one at a time.
class block_reader {
 public:
  block_reader(const file_rows& from, row_selection which) : from_(from), which_(which) {}

  /// Reads the selected rows of block `number`. Faults: a wrong line; the file has changed or cannot be read. Returns
  /// soon after `cancelled` has become true, with a fault.
  result<row_block> read(std::uint64_t number, const std::atomic<bool>& cancelled);

 private:
  struct pass {
    line_reader lines;
    std::uint64_t next_row;
  };
  static constexpr std::size_t passes_kept = 4;

  pass& pass_to(std::uint64_t block);
  result<row_block> read_rows(pass& from, std::uint64_t number, const std::atomic<bool>& cancelled) const;
  result<std::string_view> next_line(pass& from) const;

  const file_rows& from_;
  row_selection which_;
  std::list<pass> passes_;  // most recently used first
};

}  // namespace troupe::model
