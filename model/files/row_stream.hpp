// Streams the selected rows of a file in blocks, with threads that read ahead.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/files/block_reader.hpp"

namespace troupe::model {

/// Returns the bytes of the largest blocks that a stream holds in memory at the same time, including the one being
/// read, and of the windows needed for decompression.
std::uint64_t bytes_of_blocks(const file_rows& of);

/// Returns an error text if `bytes_of_blocks` exceeds `available`: file, rows, bag values, both sizes, and advice; else
/// null.
std::optional<std::string> check_blocks(const file_rows& of, std::uint64_t available);

/// Thread: any. Holds at most `blocks_kept` blocks, or one for each waiting caller if that is more, besides the block
/// being read and those that callers hold. The first request of a block starts reading the next one. All readers read
/// the same block, piece by piece. The least recently used block is dropped first.
///
/// If callers go through the blocks in order, at most about a block apart, every block is read once. Otherwise dropped
/// blocks are read again.
class row_stream {
 public:
  static constexpr std::size_t blocks_kept = 4;

  /// Returns the best number of reading threads: half of the cores, at most eight, since the consumers of rows need the
  /// others.
  static std::size_t readers_here();

  /// `readers`: the number of reading threads, at least 1; fewer if the system cannot start as many. Throws
  /// std::system_error if it cannot start any.
  row_stream(std::shared_ptr<const file_rows> from, row_selection which, std::size_t readers = readers_here());
  ~row_stream();
  row_stream(const row_stream&) = delete;
  row_stream& operator=(const row_stream&) = delete;

  /// Returns the number of selected rows in the whole file.
  std::uint64_t rows() const { return first_row_.back(); }

  const file_rows& source() const { return *from_; }

  /// Returns the block of selected row `row`. Requires: row < rows().
  std::uint64_t block_of(std::uint64_t row) const;

  /// Returns the number of selected rows before `block`.
  std::uint64_t first_row(std::uint64_t block) const { return first_row_[block]; }

  /// Returns a block; waits until it is read. Faults: those of block_reader::finish.
  result<std::shared_ptr<const row_block>> block(std::uint64_t number) const;

 private:
  struct slot {
    bool asked = false;
    bool ready = false;
    std::uint64_t used = 0;  // time of the last request
    result<std::shared_ptr<const row_block>> rows;
  };
  using slots = std::map<std::uint64_t, std::shared_ptr<slot>>;

  std::shared_ptr<slot> want(std::uint64_t number) const;
  slots::const_iterator next_to_read() const;
  void drop_oldest() const;
  void read_ahead();
  bool begin_next();
  result<std::shared_ptr<const row_block>> finished();
  fault no_memory(std::uint64_t number) const;
  void deliver(slot& to, result<std::shared_ptr<const row_block>> rows);

  std::shared_ptr<const file_rows> from_;
  block_reader reader_;
  std::vector<std::uint64_t> first_row_;  // by block; one more entry for the end

  mutable std::mutex mutex_;
  mutable std::condition_variable work_;
  mutable std::condition_variable arrived_;
  mutable slots slots_;
  mutable std::uint64_t clock_ = 0;
  // The block being read; null: none.
  std::shared_ptr<slot> current_;
  std::uint64_t current_number_ = 0;
  std::size_t helping_ = 0;  // the number of threads that read it
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace troupe::model
