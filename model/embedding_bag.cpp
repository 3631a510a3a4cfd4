#include "model/embedding_bag.hpp"

#include <algorithm>

#include "model/random.hpp"

namespace troupe {

namespace {

std::span<float> floats_of(const table_memory& memory) {
  const auto bytes = memory.bytes();
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

table_memory filled(std::size_t size, float value) {
  table_memory memory(size * sizeof(float));
  std::ranges::fill(floats_of(memory), value);
  return memory;
}

}  // namespace

embedding_bag::embedding_bag(const embedding_bag_options& options)
    : options_(options),
      rows_(rows_of_shard(options.rows, options.shard, options.shards)),
      weights_(size() * kernels::size_of(options.dtype)) {
  std::vector<float> numbers(dim());
  const std::size_t row_bytes = dim() * kernels::size_of(options_.dtype);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto key = random_key(options_.seed, random_stream::table_weights, options_.table,
                                static_cast<std::uint64_t>(whole_row(row)));
    standard_normals(key, numbers);
    std::byte* const stored = weight_bytes().data() + static_cast<std::size_t>(row) * row_bytes;
    kernels::encode(dim(), numbers.data(), {stored, options_.dtype});
  }
  const int buffers = state_buffers(options_.optimizer);
  const std::size_t state_size = static_cast<std::size_t>(rows_) * state_columns(options_.optimizer, dim());
  if (buffers >= 1) first_state_ = filled(state_size, initial_state(options_.optimizer));
  if (buffers >= 2) second_state_ = filled(state_size, 0.0F);
}

void embedding_bag::forward(const kernels::bags_view& bags, float* out) const {
  if (bags.offsets.empty())
    kernels::gather_rows(stored(), dim(), bags.indices, out);
  else
    kernels::embedding_bag_forward(options_.mode, stored(), dim(), bags, out, dim());
}

std::optional<std::int64_t> embedding_bag::step(std::uint64_t step, std::span<const contribution> contributions,
                                                float scale) {
  collect(contributions);
  return apply(step, scale);
}

void embedding_bag::collect(std::span<const contribution> contributions) {
  groups_.clear(rows_);
  for (const contribution& c : contributions) groups_.add(options_.mode, c.bags, c.grad, dim());
  collected_ = groups_.group(1.0F);
}

exact_sum embedding_bag::squared_norm(float scale) {
  collected_.scale = scale;
  row_norms_.resize(collected_.rows.size());
  kernels::row_squared_norms(dim(), collected_, row_norms_.data());
  exact_sum sum;
  for (const double norm : row_norms_) sum.add(norm);
  return sum;
}

std::optional<std::int64_t> embedding_bag::apply(std::uint64_t step, float scale) {
  collected_.scale = scale;
  std::int64_t bad_row = 0;
  const bool finite = kernels::update_rows(constants_at(options_.optimizer, step), rows_, dim(),
                                           {weight_bytes().data(), options_.dtype},
                                           {floats_of(first_state_).data(), floats_of(second_state_).data()},
                                           collected_, visits_every_row(options_.optimizer), &bad_row);
  if (finite) return std::nullopt;
  return bad_row;
}

std::span<float> embedding_bag::weights() { return floats_of(weights_); }
std::span<const float> embedding_bag::weights() const { return floats_of(weights_); }

std::vector<embedding_bag::state_buffer> embedding_bag::state() {
  const std::size_t columns = state_columns(options_.optimizer, dim());
  const int count = state_buffers(options_.optimizer);
  std::vector<state_buffer> buffers;
  if (count >= 1) buffers.push_back({floats_of(first_state_), columns});
  if (count >= 2) buffers.push_back({floats_of(second_state_), columns});
  return buffers;
}

}  // namespace troupe
