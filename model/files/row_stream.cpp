#include "model/files/row_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace troupe {

namespace {

// Selected rows before each block, and in all.
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

}  // namespace

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

// What a caller waits for comes before what is read ahead, what was wanted first before the rest.
row_stream::slots::const_iterator row_stream::next_to_read() const {
  auto best = slots_.end();
  for (auto it = slots_.begin(); it != slots_.end(); ++it) {
    const slot& one = *it->second;
    if (one.ready) continue;
    if (best == slots_.end() || one.asked > best->second->asked ||
        (one.asked == best->second->asked && one.used < best->second->used)) {
      best = it;
    }
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

// The reader thread's life.
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
    auto rows = reader.read(number, ending_);
    if (!rows) return tl::unexpected(std::move(rows.error()));
    return std::make_shared<const row_block>(std::move(*rows));
  } catch (const std::bad_alloc&) {
    return bad_input(fmt::format("--shuffle-rows {}: {}: no memory for {} rows at once; use fewer",
                                 from_->cut.window_rows, from_->file->name(), from_->cut.block_rows()));
  }
}

}  // namespace troupe
