#include "model/embedding_bag.hpp"

#include <algorithm>

#include "model/random.hpp"

namespace troupe {

namespace {

std::unique_ptr<float[]> filled(std::size_t size, float value) {
  auto buffer = std::make_unique_for_overwrite<float[]>(size);
  std::fill_n(buffer.get(), size, value);
  return buffer;
}

}  // namespace

embedding_bag::embedding_bag(const embedding_bag_options& options)
    : options_(options),
      rows_(rows_of_shard(options.rows, options.shard, options.shards)),
      weights_(std::make_unique_for_overwrite<float[]>(size())) {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto key = random_key(options_.seed, random_stream::table_weights, options_.table,
                                static_cast<std::uint64_t>(whole_row(row)));
    float* weights = weights_.get() + static_cast<std::size_t>(row) * dim();
    for (std::size_t d = 0; d < dim(); ++d) weights[d] = standard_normal(key, d);
  }
  const int buffers = state_buffers(options_.optimizer);
  if (buffers >= 1) first_state_ = filled(size(), initial_state(options_.optimizer));
  if (buffers >= 2) second_state_ = filled(size(), 0.0F);
}

void embedding_bag::forward(const kernels::bags_view& bags, float* out) const {
  if (bags.offsets.empty())
    kernels::gather_rows(weights_.get(), dim(), bags.indices, out);
  else
    kernels::embedding_bag_forward(options_.mode, weights_.get(), dim(), bags, out, dim());
}

std::optional<std::int64_t> embedding_bag::step(std::uint64_t step, std::span<const contribution> contributions,
                                                float scale) {
  groups_.clear(rows_);
  for (const contribution& c : contributions) groups_.add(options_.mode, c.bags, c.grad, dim());
  std::int64_t bad_row = 0;
  const bool finite = kernels::update_rows(constants_at(options_.optimizer, step), rows_, dim(), weights_.get(),
                                           {first_state_.get(), second_state_.get()}, groups_.group(scale),
                                           visits_every_row(options_.optimizer), &bad_row);
  if (finite) return std::nullopt;
  return bad_row;
}

std::vector<std::span<float>> embedding_bag::state() {
  std::vector<std::span<float>> buffers;
  if (first_state_) buffers.emplace_back(first_state_.get(), size());
  if (second_state_) buffers.emplace_back(second_state_.get(), size());
  return buffers;
}

}  // namespace troupe
