#include "actors/table_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <limits>

#include "actors/device_tensor.hpp"
#include "actors/weights.hpp"
#include "actors/wire.hpp"
#include "kernels/embedding_bag.hpp"
#include "protocol/errors.hpp"

namespace troupe {

namespace {

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

}  // namespace

table_exchange::table_exchange(const hybrid_model& model, std::vector<std::vector<module_ref>> tables,
                               kernels::row_dtype wire, bool remote)
    : model_(&model), wire_(wire), remote_(remote), tables_(std::move(tables)) {
  std::vector<std::size_t> counts;  // by server, of shards there
  for (const auto& shards : tables_) {
    auto& places = places_.emplace_back();
    for (const module_ref& shard : shards) {
      const auto at = static_cast<std::size_t>(std::ranges::find(ranks_, shard.rank) - ranks_.begin());
      if (at == ranks_.size()) {
        ranks_.push_back(shard.rank);
        servers_.push_back(shard.server);
        counts.push_back(0);
      }
      places.push_back({at, counts[at]++});
    }
  }
}

bool table_exchange::must_be_pooled_here(std::size_t table) const {
  return tables_[table].size() > 1 || wire_ != kernels::row_dtype::f32 ||
         model_->spec().tables[table].mode == kernels::pooling::max;
}

table_exchange::plan table_exchange::prepare(std::shared_ptr<const batch> samples) const {
  plan p;
  p.lookups.resize(servers());
  for (auto& lookups : p.lookups) lookups.reserve(tables_.size());
  p.tables.resize(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const bags& b = samples->tables[t];
    const bool must = must_be_pooled_here(t);
    const std::size_t distinct_end = must ? any_number : b.offsets.size();
    p.tables[t].is_pooled_here = (must || remote_) && plan_local(b, t, distinct_end, p);
    if (!p.tables[t].is_pooled_here)
      p.lookups[places_[t][0].server].push_back({tables_[t][0].module, blob::view(samples, b.indices),
                                                 blob::view(samples, b.offsets), blob::view(samples, b.weights)});
  }
  p.samples = std::move(samples);
  return p;
}

/// Each distinct row is asked for once, in the order of its first occurrence. False, and nothing is planned, if there
/// are `distinct_end` of them: the rows are not looked at any further then.
bool table_exchange::plan_local(const bags& b, std::size_t table, std::size_t distinct_end, plan& p) const {
  const auto shards = static_cast<std::int64_t>(tables_[table].size());
  // Divisions are what this would spend its time on.
  const auto shard_of = [shards](std::int64_t row) { return shards == 1 ? 0 : static_cast<std::size_t>(row % shards); };
  plan::local& local = p.tables[table];
  std::vector<std::vector<std::int64_t>> wanted(tables_[table].size());
  boost::unordered_flat_map<std::int64_t, std::int64_t> position;  // of a row among those wanted of its shard
  position.reserve(std::min(b.indices.size(), distinct_end));
  local.indices.resize(b.indices.size());
  for (std::size_t i = 0; i < b.indices.size(); ++i) {
    auto& rows = wanted[shard_of(b.indices[i])];
    auto [it, is_new] = position.try_emplace(b.indices[i], static_cast<std::int64_t>(rows.size()));
    if (is_new) {
      if (position.size() == distinct_end) {
        local = {};
        return false;
      }
      rows.push_back(shards == 1 ? b.indices[i] : b.indices[i] / shards);
    }
    local.indices[i] = it->second;
  }
  local.shard_begin.assign(1, 0);
  for (const auto& rows : wanted) local.shard_begin.push_back(local.shard_begin.back() + rows.size());
  if (shards > 1)
    for (std::size_t i = 0; i < b.indices.size(); ++i)
      local.indices[i] += static_cast<std::int64_t>(local.shard_begin[shard_of(b.indices[i])]);
  for (std::size_t s = 0; s < wanted.size(); ++s)
    p.lookups[places_[table][s].server].push_back({tables_[table][s].module, blob::own(std::move(wanted[s])), {}, {}});
  return true;
}

void table_exchange::offer_columns(plan& p, const network_input& input) const {
  if (device_->is_host() || remote_) return;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (p.tables[t].is_pooled_here) continue;
    const auto [at, i] = places_[t][0];
    p.lookups[at][i].room =
        std::make_shared<const device_columns>(device_matrix{device_,
                                                             input.size(),
                                                             model_->spec().tables[t].dim,
                                                             {input.data() + model_->column_of(t), input.features()},
                                                             input.owner()});
  }
}

/// The answers by table and shard, if they are what has been asked for. Sets which of them are in the input.
caf::error table_exchange::find_answers(plan& p, std::span<const rows> answers, const network_input& input,
                                        std::vector<const tensor*>& found) const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const std::size_t dim = model_->spec().tables[t].dim;
    plan::local& local = p.tables[t];
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const std::size_t expected =
          local.is_pooled_here ? local.shard_begin[s + 1] - local.shard_begin[s] : p.samples->tables[t].offsets.size();
      const auto [at, i] = places_[t][s];
      const tensor* answer = at < answers.size() && i < answers[at].tables.size() ? &answers[at].tables[i] : nullptr;
      if (answer == nullptr || answer->type != dtype_of(wire_) || answer->rows != expected || answer->cols != dim ||
          !answer->consistent())
        return make_failure(errc::shape_mismatch, fmt::format("table {}: server {} did not answer with [{}, {}] of {}",
                                                              t, ranks_[at], expected, dim, name_of(dtype_of(wire_))));
      const device_block* const block = block_of(answer->bytes);
      local.is_on_device = block != nullptr;
      if (block != nullptr && (local.is_pooled_here || block->numbers().data != input.data() + model_->column_of(t)))
        return make_failure(errc::wrong_context,
                            fmt::format("table {}: rows on a device, and not in the room that was offered", t));
      found.push_back(answer);
    }
  }
  return {};
}

caf::error table_exchange::pool(plan& p, std::span<const rows> answers, kernels::stream& on,
                                network_input& input) const {
  std::vector<const tensor*> found;
  if (auto error = find_answers(p, answers, input, found)) return error;

  std::vector<network_input::column_range> from_host;
  std::size_t columns = 0;
  const auto take = [&](std::size_t first, std::size_t count) {
    columns += count;
    if (!from_host.empty() && from_host.back().first + from_host.back().count == first)
      from_host.back().count += count;
    else if (count > 0)
      from_host.push_back({first, count});
  };
  take(0, model_->spec().dense_features);
  for (std::size_t t = 0; t < tables_.size(); ++t)
    if (!p.tables[t].is_on_device) take(model_->column_of(t), model_->spec().tables[t].dim);
  const kernels::row_matrix<float> here = input.on_host(on, columns);
  model_->place_dense(*p.samples, here);
  float* column = here.data + model_->spec().dense_features;
  const tensor* const* answer = found.data();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const bags& b = p.samples->tables[t];
    const std::size_t dim = model_->spec().tables[t].dim;
    plan::local& local = p.tables[t];
    if (local.is_on_device) {
      on.wait(block_of((*answer++)->bytes)->written());
      continue;
    }
    if (local.is_pooled_here) {
      local.rows.resize(local.shard_begin.back() * dim);
      for (std::size_t s = 0; s < tables_[t].size(); ++s)
        decode_rows(**answer++, local.rows.data() + local.shard_begin[s] * dim);
      kernels::host_stream().embedding_bag_forward(model_->spec().tables[t].mode, local.rows.data(), dim,
                                                   {local.indices, b.offsets, b.weights}, column, here.stride);
    } else {
      const float* from = (*answer++)->as<float>().data();
      for (std::size_t bag = 0; bag < b.offsets.size(); ++bag)
        std::copy_n(from + bag * dim, dim, column + bag * here.stride);
    }
    column += dim;
  }
  input.upload(on, from_host);
  return {};
}

std::vector<std::vector<bag_gradient>> table_exchange::gradients(
    const plan& p, const kernels::mirrored_array<float>& grad_input,
    const std::shared_ptr<const kernels::event>& written) const {
  const std::size_t stride = model_->in_features();
  std::vector<std::vector<bag_gradient>> result(servers());
  for (auto& grads : result) grads.reserve(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const bags& b = p.samples->tables[t];
    const std::size_t dim = model_->spec().tables[t].dim;
    const float* column = grad_input.host() + model_->column_of(t);
    const plan::local& local = p.tables[t];
    if (!local.is_pooled_here) {
      const auto [at, i] = places_[t][0];
      const bag_lookup& asked = p.lookups[at][i];
      bag_gradient& given = result[at].emplace_back();
      given = {asked.module, asked.indices, asked.offsets, asked.weights, {}};
      if (local.is_on_device) {
        given.grad = on_device(
            {device_, p.samples->size, dim, {grad_input.data() + model_->column_of(t), stride}, grad_input.owner()},
            written);
        continue;
      }
      tensor_buffer grad(p.samples->size, dim);
      for (std::size_t bag = 0; bag < p.samples->size; ++bag)
        std::copy_n(column + bag * stride, dim, grad.data() + bag * dim);
      given.grad = std::move(grad).freeze();
      continue;
    }
    auto row_grads = std::make_shared<std::vector<float>>(local.rows.size());
    kernels::embedding_bag_backward(model_->spec().tables[t].mode, local.rows.data(), dim,
                                    {local.indices, b.offsets, b.weights}, column, stride, row_grads->data());
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const auto [at, i] = places_[t][s];
      const bag_lookup& asked = p.lookups[at][i];
      const std::size_t count = local.shard_begin[s + 1] - local.shard_begin[s];
      const std::span<const float> part(row_grads->data() + local.shard_begin[s] * dim, count * dim);
      tensor grad = wire_ == kernels::row_dtype::f32 ? tensor(dtype::f32, count, dim, blob::view(row_grads, part))
                                                     : encode_rows(part.data(), count, dim, wire_);
      result[at].push_back({asked.module, asked.indices, {}, {}, std::move(grad)});
    }
  }
  return result;
}

/// `numbers_at` gives the tensor at a place of a server's list, as in the plan's lookups.
template <class NumbersAt>
caf::error table_exchange::check_numbers(const plan& p, const char* what, NumbersAt numbers_at) const {
  if (wire_ == kernels::row_dtype::f32) return {};
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const auto [at, i] = places_[t][s];
      const tensor& numbers = numbers_at(at, i);
      const std::size_t bad = find_non_finite(numbers);
      if (bad == numbers.rows * numbers.cols) continue;
      const auto local_row = static_cast<std::size_t>(p.lookups[at][i].indices.as<std::int64_t>()[bad / numbers.cols]);
      const bool is_narrow = wire_ == kernels::row_dtype::f16;
      return make_failure(
          errc::not_finite,
          fmt::format("table {}: {} {} is NaN or Inf as {}; try {}a smaller --dense-lr or --sparse-lr", t, what,
                      local_row * tables_[t].size() + s, name_of(numbers.type),
                      is_narrow ? "--wire-dtype bf16 or f32 (f16 ends at 65504), or " : "--wire-dtype f32, or "));
    }
  }
  return {};
}

caf::error table_exchange::check_rows(const plan& p, std::span<const rows> answers) const {
  return check_numbers(p, "row", [&](std::size_t at, std::size_t i) -> const tensor& { return answers[at].tables[i]; });
}

caf::error table_exchange::check_gradients(const plan& p, const std::vector<std::vector<bag_gradient>>& grads) const {
  return check_numbers(p, "the gradient of row",
                       [&](std::size_t at, std::size_t i) -> const tensor& { return grads[at][i].grad; });
}

}  // namespace troupe
