#include "model/embedding_bag.hpp"

#include <algorithm>

#include "model/random.hpp"

namespace troupe {

embedding_bag::embedding_bag(const embedding_bag_options& options, kernels::device& where)
    : options_(options),
      rows_(rows_of_shard(options.rows, options.shard, options.shards)),
      on_(where.make_stream()),
      gradient_(on_->make_table_gradient()) {
  weights_.resize(*on_, size() * kernels::size_of(options.dtype));
  initialize();
  const int buffers = state_buffers(options_.optimizer);
  const std::size_t state_size = static_cast<std::size_t>(rows_) * state_columns(options_.optimizer, dim());
  const auto fill = [&](kernels::device_array<float>& state, float value) {
    state.resize(*on_, state_size);
    on_->fill(state_size, value, state.data());
  };
  if (buffers >= 1) fill(first_state_, initial_state(options_.optimizer));
  if (buffers >= 2) fill(second_state_, 0.0F);
}

/// Makes the rows on the host, a piece at a time, and takes them to where they belong.
void embedding_bag::initialize() {
  const bool on_host = on_->where().is_host();
  const std::size_t row_bytes = dim() * kernels::size_of(options_.dtype);
  constexpr std::size_t piece_bytes = std::size_t{64} << 20;
  const std::int64_t piece_rows =
      on_host ? rows_ : std::clamp<std::int64_t>(static_cast<std::int64_t>(piece_bytes / row_bytes), 1, rows_);
  std::shared_ptr<std::byte> staging;
  if (!on_host) staging = on_->where().allocate_staging(static_cast<std::size_t>(piece_rows) * row_bytes);
  std::vector<float> numbers(dim());
  for (std::int64_t first = 0; first < rows_; first += piece_rows) {
    const std::int64_t count = std::min(piece_rows, rows_ - first);
    std::byte* const there = weights_.data() + static_cast<std::size_t>(first) * row_bytes;
    std::byte* const here = on_host ? there : staging.get();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto key = random_key(options_.seed, random_stream::table_weights, options_.table,
                                  static_cast<std::uint64_t>(whole_row(first + i)));
      standard_normals(key, numbers);
      kernels::encode(dim(), numbers.data(), {here + static_cast<std::size_t>(i) * row_bytes, options_.dtype});
    }
    if (on_host) continue;
    on_->upload(here, there, static_cast<std::size_t>(count) * row_bytes);
    on_->synchronize();
  }
}

kernels::bags_view embedding_bag::upload(const kernels::bags_view& bags, uploaded_bags& to) {
  if (on_->where().is_host()) return bags;
  return {{to.indices.put(*on_, bags.indices), bags.indices.size()},
          {to.offsets.put(*on_, bags.offsets), bags.offsets.size()},
          {to.weights.put(*on_, bags.weights), bags.weights.size()}};
}

void embedding_bag::forward(const kernels::bags_view& bags, float* out) {
  on_->synchronize();  // the bags of the lookup before are not needed any more
  const kernels::bags_view here = upload(bags, looked_up_);
  const kernels::const_table_view table(weights_.data(), options_.dtype);
  if (here.offsets.empty())
    on_->gather_rows(table, dim(), here.indices, out);
  else
    on_->embedding_bag_forward(options_.mode, table, dim(), here, out, dim());
}

std::optional<std::int64_t> embedding_bag::step(std::uint64_t step, std::span<const contribution> contributions,
                                                float scale) {
  collect(contributions);
  return apply(step, scale);
}

void embedding_bag::collect(std::span<const contribution> contributions) {
  on_->synchronize();
  gradient_->clear(rows_);
  contributed_.resize(std::max(contributed_.size(), contributions.size()));
  for (std::size_t i = 0; i < contributions.size(); ++i)
    gradient_->add(options_.mode, upload(contributions[i].bags, contributed_[i]), contributions[i].grad, dim());
  gradient_->group();
}

exact_sum embedding_bag::squared_norm(float scale) {
  exact_sum sum;
  for (const double norm : gradient_->squared_norms(dim(), scale)) sum.add(norm);
  return sum;
}

std::optional<std::int64_t> embedding_bag::apply(std::uint64_t step, float scale) {
  const std::int64_t bad_row =
      gradient_->apply(constants_at(options_.optimizer, step), dim(), {weights_.data(), options_.dtype},
                       {first_state_.data(), second_state_.data()}, scale, visits_every_row(options_.optimizer));
  if (bad_row < 0) return std::nullopt;
  return bad_row;
}

std::span<float> embedding_bag::weights() { return {reinterpret_cast<float*>(weights_.data()), size()}; }
std::span<const float> embedding_bag::weights() const {
  return {reinterpret_cast<const float*>(weights_.data()), size()};
}

std::vector<embedding_bag::state_buffer> embedding_bag::state() {
  const std::size_t columns = state_columns(options_.optimizer, dim());
  const int count = state_buffers(options_.optimizer);
  std::vector<state_buffer> buffers;
  if (count >= 1) buffers.push_back({{first_state_.data(), first_state_.size()}, columns});
  if (count >= 2) buffers.push_back({{second_state_.data(), second_state_.size()}, columns});
  return buffers;
}

}  // namespace troupe
