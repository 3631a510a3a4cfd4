#include "model/files/row_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

// Returns the number of selected rows before each block, and in all.
std::vector<std::uint64_t> first_rows(const file_rows& from, row_selection which) {
  std::vector<std::uint64_t> first(1, 0);
  for (std::uint64_t row = 0; row < from.rows;) {
    const std::uint64_t end = std::min(row + from.cut.block_rows(), from.rows);
    std::uint64_t selected = first.back();
    for (; row < end; ++row) selected += which(row) ? 1 : 0;
    first.push_back(selected);
  }
  return first;
}

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

// Rows and bag values of the largest blocks that are in memory together, including the one being read.
struct held_blocks {
  std::uint64_t rows = 0;
  std::uint64_t values = 0;
};

held_blocks largest_blocks(const file_rows& of) {
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(of.blocks(), row_stream::blocks_kept + 1));
  std::vector<std::uint64_t> largest(static_cast<std::size_t>(count));
  std::ranges::partial_sort_copy(of.block_values, largest, std::greater<>());
  return {std::min(of.rows, static_cast<std::uint64_t>(count) * of.cut.block_rows()),
          std::accumulate(largest.begin(), largest.end(), std::uint64_t{0})};
}

}  // namespace

std::uint64_t bytes_of_blocks(const file_rows& of) {
  const row_layout& layout = of.format->layout();
  const auto [rows, values] = largest_blocks(of);
  return rows * (layout.width() * sizeof(std::uint32_t) + layout.bags * sizeof(std::uint64_t)) +
         values * sizeof(std::uint32_t);
}

std::optional<std::string> check_blocks(const file_rows& of, std::uint64_t available) {
  const std::uint64_t bytes = bytes_of_blocks(of);
  if (bytes <= available) return std::nullopt;
  const auto [rows, values] = largest_blocks(of);
  const std::string bags = of.format->layout().bags > 0 ? fmt::format(" with {} values in their bags", values) : "";
  return memory_fault(fmt::format("{}: {} rows in memory at once{}", of.file->name(), rows, bags), bytes, available,
                      smaller_blocks(of));
}

row_stream::row_stream(std::shared_ptr<const file_rows> from, row_selection which)
    : from_(std::move(from)),
      which_(which),
      first_row_(first_rows(*from_, which)),
      reader_(&row_stream::read_ahead, this) {}

row_stream::~row_stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  reader_.join();
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

// Blocks that callers wait for come before blocks read ahead, and earlier requests before later ones.
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

// The reader thread's loop.
void row_stream::read_ahead() {
  block_reader reader(*from_, which_);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return ending_ || next_to_read() != slots_.end(); });
    if (ending_) return;
    const auto [number, place] = *next_to_read();
    lock.unlock();
    auto rows = read(reader, number);
    lock.lock();
    place->rows = std::move(rows);
    place->ready = true;
    drop_oldest();
    arrived_.notify_all();
  }
}

result<std::shared_ptr<const row_block>> row_stream::read(block_reader& reader, std::uint64_t number) const {
  try {
    TROUPE_TRY(rows, reader.read(number, ending_));
    return std::make_shared<const row_block>(std::move(rows));
  } catch (const std::bad_alloc&) {
    return bad_input("{}: no memory for {} rows at once with {} values in their bags; {}", from_->file->name(),
                     std::min(from_->cut.block_rows(), from_->rows), from_->block_values[number],
                     smaller_blocks(*from_));
  }
}

}  // namespace troupe::model
