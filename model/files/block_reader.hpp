// Reads blocks of a file's rows, in any order.

#pragma once

#include <atomic>
#include <cstdint>
#include <list>

#include "model/files/file_rows.hpp"

namespace troupe::model {

/// For one thread. A plain file is entered where a block begins. A compressed one can only be read from its beginning,
/// so a few passes over it are kept where they are: who asks for blocks in order continues a pass, also if several do
/// so at different places.
class block_reader {
 public:
  block_reader(const file_rows& from, row_selection which) : from_(from), which_(which) {}

  /// The rows of block `number` that are selected. Faults: a bad line; the file has changed or cannot be read any more.
  /// Gives up soon after `cancelled` has become true, with a fault that nobody will see.
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
  std::list<pass> passes_;  // the one used last comes first
};

}  // namespace troupe::model
