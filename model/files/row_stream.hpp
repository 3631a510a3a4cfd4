// The selected rows of a file, block by block, read ahead by a thread of their own.

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

/// Bytes of the largest blocks of a file that a stream has in memory at once, with the one being read.
std::uint64_t bytes_of_blocks(const file_rows& of);

/// What is wrong if these take more than `available` bytes: file, rows, values in bags, both sizes, and what to try.
std::optional<std::string> check_blocks(const file_rows& of, std::uint64_t available);

/// May be used from any thread. Holds at most `blocks_kept` blocks, or one for each caller that waits if these are
/// more, besides the one being read and those that callers hold. The block after one that is asked for the first time
/// is read ahead; the block that nobody has asked for longest goes first.
///
/// Callers who go through the blocks in order, a block or so apart, have every block read once. Others get the same
/// rows, only later: a block that is gone is read again.
class row_stream {
 public:
  static constexpr std::size_t blocks_kept = 4;

  /// Throws std::system_error if the system has no thread left.
  row_stream(std::shared_ptr<const file_rows> from, row_selection which);
  ~row_stream();
  row_stream(const row_stream&) = delete;
  row_stream& operator=(const row_stream&) = delete;

  /// Selected rows in the whole file.
  std::uint64_t rows() const { return first_row_.back(); }

  const file_rows& source() const { return *from_; }

  /// The block that has selected row `row` of the file, row < rows().
  std::uint64_t block_of(std::uint64_t row) const;

  /// How many selected rows are in the blocks before `block`.
  std::uint64_t first_row(std::uint64_t block) const { return first_row_[block]; }

  /// Waits until the block is there. Faults: as block_reader::read.
  result<std::shared_ptr<const row_block>> block(std::uint64_t number) const;

 private:
  struct slot {
    bool asked = false;
    bool ready = false;
    std::uint64_t used = 0;  // when it was wanted last
    result<std::shared_ptr<const row_block>> rows;
  };
  using slots = std::map<std::uint64_t, std::shared_ptr<slot>>;

  std::shared_ptr<slot> want(std::uint64_t number) const;
  slots::const_iterator next_to_read() const;
  void drop_oldest() const;
  void read_ahead();
  result<std::shared_ptr<const row_block>> read(block_reader& reader, std::uint64_t number) const;

  std::shared_ptr<const file_rows> from_;
  row_selection which_;
  std::vector<std::uint64_t> first_row_;  // by block, and one more

  mutable std::mutex mutex_;
  mutable std::condition_variable work_;
  mutable std::condition_variable arrived_;
  mutable slots slots_;
  mutable std::uint64_t clock_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread reader_;
};

}  // namespace troupe::model
