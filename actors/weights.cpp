#include "actors/weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/row_codec.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

msg::tensor merge_shards(const std::vector<msg::tensor>& shards, std::uint64_t rows, std::uint64_t dim) {
  msg::tensor_buffer merged(rows, dim);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const msg::tensor& shard = shards[row % shards.size()];
    const std::byte* from = shard.bytes.data() + row / shards.size() * dim * msg::size_of(shard.type);
    kernels::decode({from, row_dtype_of(shard.type).value_or(kernels::row_dtype::f32)}, dim, merged.data() + row * dim);
  }
  return std::move(merged).freeze();
}

std::optional<weights_digest::piece> weights_digest::next() {
  if (to_ask_.empty() && !open_round()) return std::nullopt;
  const piece first = to_ask_.front();
  to_ask_.pop_front();
  return first;
}

/// False if there are no more rows, or they would be too many at a time.
bool weights_digest::open_round() {
  // Two rounds fit: one of them is asked for while the other one is digested.
  constexpr std::uint64_t round_rows_max = rows_max / 2;
  while (next_table_ < tables_.size() && next_row_ * tables_[next_table_].shards >= tables_[next_table_].rows) {
    ++next_table_;
    next_row_ = 0;
  }
  if (next_table_ == tables_.size()) return false;
  const auto [rows, shards] = tables_[next_table_];
  const std::uint64_t stride = std::clamp<std::uint64_t>(round_rows_max / shards, 1, msg::row_digests_max);
  const std::uint64_t begin = next_row_ * shards;
  const std::uint64_t end = std::min(rows, begin + stride * shards);
  if (rows_under_way_ > 0 && rows_under_way_ + (end - begin) > rows_max) return false;
  round opened{std::vector<msg::tensor>(shards), 0, end - begin};
  for (std::uint32_t s = 0; s < shards && begin + s < end; ++s) {
    const std::uint64_t here = (end - begin - s + shards - 1) / shards;
    to_ask_.push_back({next_table_, s, next_row_, here, rounds_digested_ + rounds_.size()});
    ++opened.missing;
  }
  rows_under_way_ += opened.rows;
  rounds_.push_back(std::move(opened));
  next_row_ += stride;
  return true;
}

bool weights_digest::add(const piece& part, msg::tensor digests) {
  if (digests.type != msg::dtype::u64 || digests.rows != part.rows || digests.cols != 1 || !digests.consistent())
    return false;
  round& its = rounds_[part.round - rounds_digested_];
  its.shards[part.shard] = std::move(digests);
  --its.missing;
  for (; !rounds_.empty() && rounds_.front().missing == 0; ++rounds_digested_) {
    take(rounds_.front());
    rows_under_way_ -= rounds_.front().rows;
    rounds_.pop_front();
  }
  return true;
}

void weights_digest::take(const round& whole) {
  const std::size_t shards = whole.shards.size();
  for (std::uint64_t row = 0; row < whole.rows; ++row)
    take(whole.shards[row % shards].as<std::uint64_t>()[row / shards]);
}

void weights_digest::take(std::uint64_t part) { digest_.add(std::as_bytes(std::span(&part, 1))); }

std::string weights_digest::text(std::uint64_t dense_digest) {
  take(dense_digest);
  return fmt::format("{:016x}", digest_.value());
}

}  // namespace troupe::actors
