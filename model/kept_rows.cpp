#include "model/kept_rows.hpp"

#include <algorithm>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstring>
#include <utility>

#include "base/host_memory.hpp"
#include "kernels/idle_threads.hpp"

namespace troupe::model {

namespace {

constexpr std::size_t block_bytes_wanted = std::size_t{1} << 17;
constexpr std::size_t chunk_bytes_max = std::size_t{1} << 20;
constexpr std::size_t whole_bytes_max = std::size_t{1} << 26;

/// Returns log2 of the largest number of rows, a power of two, that fit into `bytes`; at least 0.
std::uint32_t shift_for(std::size_t bytes, std::size_t row_bytes) {
  return static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(bytes / row_bytes, 1)) - 1);
}

}  // namespace

bool memory_allowance::take(std::uint64_t bytes) {
  std::uint64_t left = left_.load();
  while (left >= bytes)
    if (left_.compare_exchange_weak(left, left - bytes)) return true;
  return false;
}

void memory_allowance::give_back(std::uint64_t bytes) {
  left_ += bytes;
  if (on_return_) on_return_();
}

kept_rows::kept_rows(std::span<const std::byte> rows, std::size_t row_bytes, std::shared_ptr<memory_allowance> memory)
    : rows_(rows),
      row_bytes_(row_bytes),
      count_(rows.size() / row_bytes),
      block_shift_(shift_for(block_bytes_wanted, row_bytes)),
      // A small array has small chunks, so that they need no more memory than the array.
      chunk_shift_(shift_for(std::min(chunk_bytes_max, rows.size() / 16), row_bytes)),
      block_rows_(std::size_t{1} << block_shift_),
      blocks_((count_ + block_rows_ - 1) >> block_shift_),
      is_over_(count_ == 0),
      memory_(std::move(memory)) {}

kept_rows::~kept_rows() { drop(); }

std::uint64_t kept_rows::rows_of(std::uint64_t block) const {
  return std::min<std::uint64_t>(block_rows_, count_ - (block << block_shift_));
}

/// Frees everything. Requires: the lock is held.
void kept_rows::end() {
  if (is_over_.exchange(true)) return;
  is_alone_ = std::vector<std::uint64_t>();
  newest_ = std::vector<std::uint32_t>();
  chunks_ = std::vector<chunk>();
  whole_ = std::vector<const std::byte*>();
  whole_owners_ = std::vector<std::shared_ptr<std::byte>>();
  memory_->give_back(std::exchange(taken_, 0));
}

void kept_rows::drop() {
  const std::lock_guard lock(mutex_);
  is_dropped_ = true;
  end();
}

// -- changing -----------------------------------------------------------------------------------------

bool kept_rows::is_kept(std::uint64_t row) const {
  const std::uint64_t block = row >> block_shift_;
  if (block < passed_ || (!whole_.empty() && whole_[block] != nullptr)) return true;
  return !is_alone_.empty() && (is_alone_[row / 64] >> (row % 64) & 1) != 0;
}

/// Copies a row that is not kept yet. Returns false if there is no memory left.
bool kept_rows::keep(std::uint64_t row) {
  const std::uint64_t slot_in_chunk = slots_ & ((std::uint64_t{1} << chunk_shift_) - 1);
  if (slot_in_chunk == 0 && (slots_ >> chunk_shift_) == chunks_.size()) {
    const std::size_t rows = std::size_t{1} << chunk_shift_;
    if (slots_ > none - rows || !memory_->take(rows * row_bytes_)) return false;
    taken_ += rows * row_bytes_;
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(rows * row_bytes_),
                       std::make_unique_for_overwrite<chunk::place[]>(rows)});
  }
  if (is_alone_.empty()) {
    is_alone_.resize((count_ + 63) / 64);
    newest_.assign(blocks_, none);
  }
  chunk& to = chunks_[slots_ >> chunk_shift_];
  std::memcpy(to.bytes.get() + slot_in_chunk * row_bytes_, rows_.data() + row * row_bytes_, row_bytes_);
  const std::uint64_t block = row >> block_shift_;
  to.places[slot_in_chunk] = {static_cast<std::uint32_t>(row & (block_rows_ - 1)),
                              std::exchange(newest_[block], slots_++)};
  is_alone_[row / 64] |= std::uint64_t{1} << (row % 64);
  return true;
}

bool kept_rows::let_change(std::span<const std::int64_t> which) {
  if (is_over_) return true;
  // Releases the lock now and then for the reader.
  constexpr std::size_t at_once = 4096;
  for (; !which.empty(); which = which.subspan(std::min(at_once, which.size()))) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return true;
    for (const std::int64_t index : which.first(std::min(at_once, which.size()))) {
      const auto row = static_cast<std::uint64_t>(index);
      if (!is_kept(row) && !keep(row)) return false;
    }
  }
  return true;
}

/// Copies these blocks. Returns false if there is no memory left.
bool kept_rows::keep_blocks(std::uint64_t first, std::uint64_t end) {
  const std::size_t begin = (first << block_shift_) * row_bytes_;
  const std::size_t bytes = std::min(rows_.size(), (end << block_shift_) * row_bytes_) - begin;
  if (!memory_->take(bytes)) return false;
  taken_ += bytes;
  const std::shared_ptr<std::byte> copy = allocate_on_host(bytes);
  kernels::in_ranges(bytes, 2 * bytes, [&](std::size_t from, std::size_t to) {
    std::memcpy(copy.get() + from, rows_.data() + begin + from, to - from);
  });
  for (std::uint64_t block = first; block < end; ++block) whole_[block] = copy.get() + (block - first) * block_bytes();
  whole_owners_.push_back(copy);
  return true;
}

bool kept_rows::let_all_change() {
  if (is_over_) return true;
  const std::lock_guard lock(mutex_);
  if (is_over_) return true;
  whole_.resize(blocks_);
  std::uint64_t at_once = std::max<std::uint64_t>(whole_bytes_max / block_bytes(), 1);
  for (std::uint64_t first = passed_; first < blocks_;) {
    if (whole_[first] != nullptr) {
      ++first;
      continue;
    }
    const auto end = std::min(blocks_, first + at_once);
    const auto next = std::find_if(whole_.begin() + static_cast<std::ptrdiff_t>(first),
                                   whole_.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](const std::byte* one) { return one != nullptr; });
    if (keep_blocks(first, static_cast<std::uint64_t>(next - whole_.begin())))
      first = static_cast<std::uint64_t>(next - whole_.begin());
    else if (at_once > 1)
      at_once /= 2;
    else
      return false;
  }
  return true;
}

// -- reading ------------------------------------------------------------------------------------------

/// Copies a block as it was. Rows that may be changing now have been copied, and are not read from the array.
void kept_rows::read_block(std::uint64_t block, std::span<std::byte> to) const {
  struct copied {
    std::uint32_t row;
    std::uint32_t slot;
  };
  boost::container::small_vector<copied, 64> alone;
  for (std::uint32_t slot = newest_.empty() ? none : newest_[block]; slot != none;) {
    const chunk::place& place = chunks_[slot >> chunk_shift_].places[slot & ((1U << chunk_shift_) - 1)];
    alone.push_back({place.row, slot});
    slot = place.next;
  }
  std::ranges::sort(alone, {}, &copied::row);
  const bool is_whole = !whole_.empty() && whole_[block] != nullptr;
  const std::byte* const from = is_whole ? whole_[block] : rows_.data() + (block << block_shift_) * row_bytes_;
  std::size_t done = 0;
  for (const auto& [row, slot] : alone) {
    std::memcpy(to.data() + done, from + done, row * row_bytes_ - done);
    const std::byte* const bytes = chunks_[slot >> chunk_shift_].bytes.get();
    std::memcpy(to.data() + row * row_bytes_, bytes + (slot & ((1U << chunk_shift_) - 1)) * row_bytes_, row_bytes_);
    done = (row + std::size_t{1}) * row_bytes_;
  }
  std::memcpy(to.data() + done, from + done, to.size() - done);
}

bool kept_rows::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const std::lock_guard lock(mutex_);
    if (is_dropped_) return false;
    const auto part = to.first(std::min(to.size(), rows_of(passed_) * row_bytes_));
    read_block(passed_, part);
    to = to.subspan(part.size());
    if (++passed_ == blocks_) end();
  }
  return true;
}

}  // namespace troupe::model
