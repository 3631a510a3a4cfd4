#include "model/embedding_bag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/stop_request.hpp"
#include "model/random.hpp"

namespace troupe::model {

std::string description_of(const embedding_bag_options& table) {
  return table.name.empty() ? fmt::format("table {}", table.table) : table.name;
}

embedding_bag::embedding_bag(const embedding_bag_options& options, kernels::device& where)
    : embedding_bag(options, std::make_shared<table_batch>(where)) {
  is_alone_ = true;
}

embedding_bag::embedding_bag(const embedding_bag_options& options, std::shared_ptr<table_batch> batch)
    : options_(options),
      rows_(static_cast<std::int64_t>(rows_on(static_cast<std::uint64_t>(options.rows), options.shard))),
      columns_(columns_on(options.dim, options.shard)),
      batch_(std::move(batch)) {
  try {
    weights_.resize(stream(), size() * size_of(options.dtype));
    initialize();
    set_optimizer(options.optimizer);
  } catch (...) {
    leave();
    throw;
  }
}

void embedding_bag::set_optimizer(const optimizer_spec& chosen) {
  options_.optimizer = chosen;
  const int buffers = state_buffers(options_.optimizer);
  const std::size_t state_size = static_cast<std::size_t>(rows_) * state_columns(options_.optimizer, dim());
  const auto fill = [&](kernels::device_array<float>& state, float value) {
    state.resize(stream(), state_size);
    stream().fill(state_size, value, state.data());
  };
  if (buffers >= 1) fill(first_state_, initial_state(options_.optimizer));
  if (buffers >= 2) fill(second_state_, 0.0F);
}

namespace {

/// Throws if a stop was requested while the table is made.
void check_not_stopped() {
  if (stop_asked()) throw std::runtime_error("a stop was requested while its rows were drawn");
}

}  // namespace

void embedding_bag::initialize() {
  const std::uint64_t base = random_key_base(options_.seed, random_stream::table_weights, options_.table);
  if (options_.shard.split == table_split::rows) {
    constexpr std::size_t numbers_at_once = std::size_t{1} << 24;  // some tenths of a second
    const auto all = static_cast<std::size_t>(rows_);
    const std::size_t at_once = std::max<std::size_t>(1, numbers_at_once / dim());
    for (std::size_t first = 0; first < all; first += at_once) {
      check_not_stopped();
      stream().draw_rows(options_.init,
                         {base + options_.shard.index + first * options_.shard.count, options_.shard.count},
                         std::min(at_once, all - first), dim(),
                         {weights_.data() + first * dim() * size_of(options_.dtype), options_.dtype});
    }
    return;
  }
  // The numbers of a row are drawn in order, so the numbers before its columns are also drawn, some rows at a time on
  // the host.
  constexpr std::size_t drawn_bytes = std::size_t{1} << 22;
  const std::size_t number = size_of(options_.dtype);
  const std::size_t drawn = columns_.first + dim();
  const std::size_t width = dim() * number;
  const auto rows = static_cast<std::size_t>(rows_);
  const std::size_t block = std::clamp<std::size_t>(drawn_bytes / (drawn * number), 1, rows);
  std::vector<std::byte> whole(block * drawn * number);
  std::vector<std::byte> mine(block * width);
  for (std::size_t first = 0; first < rows; first += block) {
    check_not_stopped();
    const std::size_t count = std::min(block, rows - first);
    kernels::host_stream().draw_rows(options_.init, {base + first, 1}, count, drawn, {whole.data(), options_.dtype});
    for (std::size_t row = 0; row < count; ++row)
      std::memcpy(mine.data() + row * width, whole.data() + (row * drawn + columns_.first) * number, width);
    stream().upload(mine.data(), weights_.data() + first * width, count * width);
    stream().synchronize();
  }
}

void embedding_bag::forward(const kernels::bags_view& bags, float* out) {
  if (bags.offsets.empty())
    stream().gather_rows({weights_.data(), options_.dtype}, dim(), bags.indices, out);
  else
    pool(bags, {out, dim()});
}

void embedding_bag::pool(const kernels::bags_view& bags, kernels::row_matrix<float> out) {
  stream().embedding_bag_forward(options_.mode, {weights_.data(), options_.dtype}, dim(), bags, out.data, out.stride);
}

std::optional<std::int64_t> embedding_bag::step(std::uint64_t step, std::span<const contribution> contributions,
                                                float scale) {
  collect(contributions);
  apply(step, scale);
  return bad_row();
}

std::shared_ptr<const table_batch::lookup> embedding_bag::begin(const kernels::bags_view& bags,
                                                                kernels::row_matrix<float> out,
                                                                std::function<void()> then) const {
  return batch_->begin(
      {dim(), options_.dtype, {options_.mode, weights_.data(), bags, out.data, out.stride}, std::move(then)});
}

void embedding_bag::collect(std::span<const contribution> contributions) {
  std::size_t indices = 0;
  for (const contribution& one : contributions) indices += one.bags.indices.size();
  place_ = batch_->join({rows_, dim(), options_.dtype, visits_every_row(options_.optimizer)}, indices, place_);
  kernels::table_gradient& gradient = batch_->gradient(place_);
  for (const contribution& one : contributions)
    gradient.add(place_.table, options_.mode, one.bags, one.grad.data, one.grad.stride);
  if (is_alone_) batch_->group();
}

exact_sum embedding_bag::squared_norm(float scale) {
  exact_sum sum;
  for (const double norm : batch_->norms(place_, scale)) sum.add(norm);
  return sum;
}

void embedding_bag::apply(std::uint64_t step, float scale) {
  batch_->set(
      place_,
      {constants_at(options_.optimizer, step), weights_.data(), {first_state_.data(), second_state_.data()}, scale});
  unasked_.push_back(place_);
  if (is_alone_) batch_->apply();
}

std::optional<std::int64_t> embedding_bag::bad_row() {
  if (unasked_.empty()) return std::nullopt;
  const std::int64_t row = batch_->bad_row(unasked_.front());
  unasked_.pop_front();
  if (row < 0) return std::nullopt;
  return row;
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

}  // namespace troupe::model
