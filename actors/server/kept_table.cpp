#include "actors/server/kept_table.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "actors/common/failure.hpp"
#include "actors/common/faults.hpp"
#include "base/exception_text.hpp"
#include "base/host_memory.hpp"
#include "kernels/bulk_copy.hpp"
#include "kernels/device_array.hpp"

namespace troupe::actors {

kept_table::kept_table(std::size_t table, model::shard_of shard, std::vector<table_array> arrays, kernels::stream& on,
                       std::shared_ptr<model::memory_allowance> memory)
    : table_(table), shard_(shard), arrays_(std::move(arrays)), memory_(std::move(memory)) {
  if (on.device().is_host()) {
    for (const auto& [name, type, columns, bytes] : arrays_)
      rows_.push_back(std::make_unique<model::kept_rows>(bytes, columns * size_of(type), memory_));
    return;
  }
  std::uint64_t all = 0;
  for (const table_array& one : arrays_) all += one.bytes.size();
  if (!memory_->take(all)) {
    on_ = &on;
    return;
  }
  copied_ = all;
  try {
    for (const table_array& one : arrays_) {
      copies_.push_back(allocate_on_host(one.bytes.size()));
      kernels::download_bulk(on, one.bytes.data(), copies_.back().get(), one.bytes.size());
    }
  } catch (const std::bad_alloc&) {  // the limit allowed more than there is
    copies_.clear();
    memory_->give_back(std::exchange(copied_, 0));
    on_ = &on;
    return;
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) arrays_[i].bytes = {copies_[i].get(), arrays_[i].bytes.size()};
}

kept_table::~kept_table() {
  if (copied_ > 0) memory_->give_back(copied_);
  *has_gone_ = true;
  has_gone_->notify_all();
}

bool kept_table::let_change(std::span<const std::int64_t> rows) {
  return on_ == nullptr && std::ranges::all_of(rows_, [rows](const auto& one) { return one->let_change(rows); });
}

bool kept_table::let_all_change() {
  return on_ == nullptr && std::ranges::all_of(rows_, [](const auto& one) { return one->let_all_change(); });
}

void kept_table::drop() {
  for (const auto& one : rows_) one->drop();
}

/// Returns an array as a tensor whose bytes are copied to `piece`, piece by piece, while it is written.
model::tensor_view kept_table::view_of(std::size_t array, std::vector<std::byte>& piece) {
  const auto& [name, type, columns, bytes] = arrays_[array];
  model::tensor_view view{{name, type, {bytes.size() / (columns * size_of(type)), columns}}, bytes};
  if (on_ != nullptr)
    view.fetch = [this, &piece](std::span<const std::byte> some) {
      return kernels::on_host(*on_, some.data(), some.size(), piece);
    };
  if (rows_.empty()) return view;
  constexpr std::size_t blocks_at_once = 8;
  view.piece_bytes = blocks_at_once * rows_[array]->block_bytes();
  view.fetch = [this, array, &piece](std::span<const std::byte> some) -> std::span<const std::byte> {
    if (auto* wrong = faults()) wrong->writing(table_, shard_.index);
    piece.resize(some.size());
    if (!rows_[array]->read(piece)) throw std::runtime_error("its rows have gone");
    return piece;
  };
  return view;
}

caf::expected<remote_module::saved> kept_table::write(const std::string& folder) try {
  std::vector<std::byte> piece;
  std::vector<model::tensor_view> views;
  views.reserve(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) views.push_back(view_of(i, piece));
  auto file = write_module(folder, table_, shard_, views);
  drop();
  return file;
} catch (const std::exception& e) {
  drop();
  return make_failure(errc::exception, fmt::format("table {}, shard {}: {}", table_, shard_.index, text_of(e)));
}

}  // namespace troupe::actors
