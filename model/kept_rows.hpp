// A snapshot of an array's rows, read in order while the array keeps changing (copy on write): before rows change,
// those that the reader has not passed yet are copied.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace troupe::model {

/// A number of bytes that several users share. Thread: any.
class memory_allowance {
 public:
  /// `on_return` is called whenever a user returns its memory, on that user's thread; may be null.
  explicit memory_allowance(std::uint64_t bytes, std::function<void()> on_return = {})
      : left_(bytes), on_return_(std::move(on_return)) {}

  /// Returns false, and takes nothing, if fewer bytes are left.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  std::uint64_t left() const { return left_.load(); }

 private:
  std::atomic<std::uint64_t> left_;
  std::function<void()> on_return_;
};

/// Thread: one that changes the array, and one that reads; each may be any thread.
///
/// Not counted: 8 more bytes for each row that is copied alone, and a bit for each row of the array.
class kept_rows {
 public:
  /// Keeps `rows` [count, row_bytes]. Requires: they stay in place until `drop` or the destruction of this object.
  kept_rows(std::span<const std::byte> rows, std::size_t row_bytes, std::shared_ptr<memory_allowance> memory);
  ~kept_rows();
  kept_rows(const kept_rows&) = delete;
  kept_rows& operator=(const kept_rows&) = delete;

  // -- the thread that changes the array ---------------------------------------------------------

  /// Called before these rows change. Returns false if there is no memory to keep one of them; then they must not
  /// change yet: ask again when memory has been returned.
  bool let_change(std::span<const std::int64_t> which);
  /// The same for all rows.
  bool let_all_change();
  /// The reader has ended: the rows may change, and their memory may be freed.
  void drop();

  // -- the thread that reads ------------------------------------------------------------------------

  /// Reads must begin at multiples of this many bytes, and have this length, except for the last.
  std::size_t block_bytes() const { return block_rows_ * row_bytes_; }
  /// Copies the next rows into `to`. Returns false after `drop`. Requires: calls are in order.
  bool read(std::span<std::byte> to);

 private:
  /// A block of memory for rows that were copied alone, and where each belongs.
  struct chunk {
    std::unique_ptr<std::byte[]> bytes;
    struct place {
      std::uint32_t row;   ///< within its block
      std::uint32_t next;  ///< the slot of another row of this block, or `none`
    };
    std::unique_ptr<place[]> places;
  };
  static constexpr std::uint32_t none = 0xffff'ffff;

  bool is_kept(std::uint64_t row) const;
  bool keep(std::uint64_t row);
  bool keep_blocks(std::uint64_t first, std::uint64_t end);
  void read_block(std::uint64_t block, std::span<std::byte> to) const;
  std::uint64_t rows_of(std::uint64_t block) const;
  void end();

  std::span<const std::byte> rows_;
  const std::size_t row_bytes_;
  const std::uint64_t count_;
  std::uint32_t block_shift_ = 0;
  std::uint32_t chunk_shift_ = 0;
  std::size_t block_rows_ = 1;
  std::uint64_t blocks_ = 0;

  std::mutex mutex_;  ///< protects all members below
  std::atomic<bool> is_over_ = false;
  bool is_dropped_ = false;
  std::uint64_t passed_ = 0;             ///< blocks that have been read
  std::vector<std::uint64_t> is_alone_;  ///< bits by row: the row has been copied alone
  std::vector<std::uint32_t> newest_;    ///< by block: the slot of the row that was last copied alone
  std::vector<chunk> chunks_;            ///< they contain the slots
  std::uint32_t slots_ = 0;              ///< the number of used slots
  std::vector<const std::byte*> whole_;  ///< by block: the copy of the whole block, or null
  std::vector<std::shared_ptr<std::byte>> whole_owners_;
  std::shared_ptr<memory_allowance> memory_;
  std::uint64_t taken_ = 0;  ///< bytes taken from `memory_`
};

}  // namespace troupe::model
