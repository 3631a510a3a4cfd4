#include "model/files/row_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>
#include <system_error>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

// Returns advice for smaller blocks.
std::string smaller_blocks(const file_rows& of) {
  std::vector<std::string> ways;
  if (of.cut.block_rows() - of.cut.window_rows >= row_cut::block_rows_min)
    ways.emplace_back("a smaller --batch-size");  // a block has the rows of a few steps
  else if (of.cut.window_rows > row_cut::block_rows_min)
    ways.emplace_back("a smaller --shuffle-rows");
  if (of.format->layout().bags > 0) ways.emplace_back("shorter bags");
  if (ways.empty()) ways.emplace_back("fewer columns");
  return "use " + alternatives(ways);
}

// Rows and bag values of the largest blocks that are in memory at the same time, including the one being read.
struct held_blocks {
  std::uint64_t rows = 0;
  std::uint64_t values = 0;
  std::uint64_t values_being_joined = 0;  // of the block being read, whose pieces are joined
};

held_blocks largest_blocks(const file_rows& of) {
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(of.blocks(), row_stream::blocks_kept + 1));
  std::vector<std::uint64_t> largest(static_cast<std::size_t>(count));
  std::ranges::partial_sort_copy(of.block_values, largest, std::greater<>());
  return {std::min(of.rows, static_cast<std::uint64_t>(count) * of.cut.block_rows()),
          std::accumulate(largest.begin(), largest.end(), std::uint64_t{0}), largest.front()};
}

std::uint64_t bytes_of_windows(const file_rows& of) { return block_reader::passes_kept(of) * of.window; }

}  // namespace

std::uint64_t bytes_of_blocks(const file_rows& of) {
  const row_layout& layout = of.format->layout();
  const held_blocks held = largest_blocks(of);
  return bytes_of_windows(of) +
         held.rows * (layout.width() * sizeof(std::uint32_t) + layout.bags * sizeof(std::uint64_t)) +
         (held.values + held.values_being_joined) * sizeof(std::uint32_t) +
         std::min(of.rows, of.cut.block_rows()) * layout.bags * sizeof(std::uint64_t);  // offsets being joined
}

std::optional<std::string> check_blocks(const file_rows& of, std::uint64_t available) {
  const std::uint64_t bytes = bytes_of_blocks(of);
  if (bytes <= available) return std::nullopt;
  const held_blocks held = largest_blocks(of);
  const bool has_bags = of.format->layout().bags > 0;
  const std::string bags = has_bags ? fmt::format(" with {} values in their bags", held.values) : "";
  const std::uint64_t windows = bytes_of_windows(of);
  const bool much_for_windows = windows > bytes / 2;
  return memory_fault(
      fmt::format("{}: {} rows in memory at once{}{}", of.file->name(), held.rows, bags,
                  much_for_windows ? fmt::format(", and {} of zstd windows", size_text(windows)) : ""),
      bytes, available,
      much_for_windows ? "compress it anew with a smaller window, such as by zstd --long=27" : smaller_blocks(of));
}

std::size_t row_stream::readers_here() {
  constexpr std::size_t most = 8;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 1, most);
}

row_stream::row_stream(std::shared_ptr<const file_rows> from, row_selection which, std::size_t readers)
    : from_(std::move(from)), reader_(*from_, which) {
  for (std::uint64_t number = 0; number <= from_->blocks(); ++number) first_row_.push_back(reader_.rows_before(number));
  readers_.reserve(readers);
  try {
    while (readers_.size() < readers) readers_.emplace_back(&row_stream::read_ahead, this);
  } catch (const std::system_error&) {
    if (readers_.empty()) throw;
  }
}

row_stream::~row_stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& one : readers_) one.join();
}

std::uint64_t row_stream::block_of(std::uint64_t row) const {
  return static_cast<std::uint64_t>(std::ranges::upper_bound(first_row_, row) - first_row_.begin()) - 1;
}

result<std::shared_ptr<const row_block>> row_stream::block(std::uint64_t number) const {
  std::unique_lock lock(mutex_);
  const auto mine = want(number);
  if (!std::exchange(mine->asked, true)) {
    want((number + 1) % from_->blocks());
    drop_oldest();
    work_.notify_one();
  }
  arrived_.wait(lock, [&mine] { return mine->ready; });
  return mine->rows;
}

std::shared_ptr<row_stream::slot> row_stream::want(std::uint64_t number) const {
  auto& wanted = slots_[number];
  if (wanted == nullptr) wanted = std::make_shared<slot>();
  wanted->used = ++clock_;
  return wanted;
}

// Awaited blocks come before blocks read ahead, and earlier requests before later ones.
row_stream::slots::const_iterator row_stream::next_to_read() const {
  auto best = slots_.end();
  for (auto it = slots_.begin(); it != slots_.end(); ++it) {
    const slot& one = *it->second;
    if (one.ready) continue;
    if (best == slots_.end() || one.asked > best->second->asked ||
        (one.asked == best->second->asked && one.used < best->second->used))
      best = it;
  }
  return best;
}

void row_stream::drop_oldest() const {
  while (slots_.size() > blocks_kept) {
    auto oldest = slots_.end();
    for (auto it = slots_.begin(); it != slots_.end(); ++it) {
      const bool is_waited_for = it->second->asked && !it->second->ready;
      if (!is_waited_for && (oldest == slots_.end() || it->second->used < oldest->second->used)) oldest = it;
    }
    if (oldest == slots_.end()) return;
    slots_.erase(oldest);
  }
}

// A reader's loop: all readers read the same block, and the last one to leave it finishes it.
void row_stream::read_ahead() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] {
      return ending_ || (current_ != nullptr ? reader_.has_more() : next_to_read() != slots_.end());
    });
    if (ending_) return;
    if (current_ == nullptr && !begin_next()) continue;
    ++helping_;
    lock.unlock();
    reader_.help(ending_);
    lock.lock();
    if (--helping_ > 0) continue;
    lock.unlock();
    auto rows = finished();
    lock.lock();
    deliver(*std::exchange(current_, nullptr), std::move(rows));
    work_.notify_all();
  }
}

// Begins to read the next block; false if there is no memory for it.
bool row_stream::begin_next() {
  const auto [number, place] = *next_to_read();
  try {
    reader_.begin(number);
  } catch (const std::bad_alloc&) {
    deliver(*place, tl::unexpected(no_memory(number)));
    return false;
  }
  current_ = place;
  current_number_ = number;
  work_.notify_all();
  return true;
}

result<std::shared_ptr<const row_block>> row_stream::finished() {
  try {
    TROUPE_TRY(rows, reader_.finish());
    return std::make_shared<const row_block>(std::move(rows));
  } catch (const std::bad_alloc&) {
    return tl::unexpected(no_memory(current_number_));
  }
}

fault row_stream::no_memory(std::uint64_t number) const {
  return {fault_kind::input, fmt::format("{}: no memory for {} rows at once with {} values in their bags; {}",
                                         from_->file->name(), std::min(from_->cut.block_rows(), from_->rows),
                                         from_->block_values[number], smaller_blocks(*from_))};
}

void row_stream::deliver(slot& to, result<std::shared_ptr<const row_block>> rows) {
  to.rows = std::move(rows);
  to.ready = true;
  drop_oldest();
  arrived_.notify_all();
}

}  // namespace troupe::model
