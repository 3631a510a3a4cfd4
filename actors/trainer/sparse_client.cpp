#include "actors/trainer/sparse_client.hpp"

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstring>
#include <functional>
#include <limits>

#include "actors/common/device_tensor.hpp"
#include "actors/common/failure.hpp"
#include "actors/server/row_codec.hpp"
#include "base/assert.hpp"
#include "kernels/embedding_bag.hpp"
#include "trace/record/record.hpp"

namespace troupe::actors {

namespace {

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

/// Returns a copy in staging memory.
template <class T>
std::shared_ptr<std::byte> staged(kernels::device& of, const std::vector<T>& numbers) {
  auto memory = of.allocate_staging(numbers.size() * sizeof(T));
  std::memcpy(memory.get(), numbers.data(), numbers.size() * sizeof(T));
  return memory;
}

/// Copies `columns` columns of `rows` rows at `from`.
msg::tensor cut_columns(kernels::row_matrix<const float> from, std::size_t rows, std::size_t columns) {
  msg::tensor_buffer part(rows, columns);
  for (std::size_t row = 0; row < rows; ++row)
    std::copy_n(from.data + row * from.stride, columns, part.data() + row * columns);
  return std::move(part).freeze();
}

/// Writes a tensor of rows to columns of `to`.
void put_columns(const msg::tensor& part, kernels::row_matrix<float> to) {
  if (part.cols == to.stride) return decode_rows(part, to.data);
  const std::size_t row_bytes = part.cols * size_of(part.type);
  for (std::size_t row = 0; row < part.rows; ++row)
    kernels::decode({part.bytes.data() + row * row_bytes, part.type}, part.cols, to.data + row * to.stride);
}

}  // namespace

sparse_client::sparse_client(const model::data_spec& spec, std::vector<std::vector<msg::module_ref>> shards,
                             const options& chosen)
    : spec_(spec),
      layout_(spec),
      options_(chosen),
      tables_(std::move(shards)),
      inputs_(chosen.where->is_host() ? chosen.steps_together : chosen.steps_ahead + 3) {
  TROUPE_ASSERT(tables_.size() == spec_.tables.size());
  std::vector<std::size_t> counts;  // the number of shards, by server
  for (const auto& spread : tables_) {
    auto& places = places_.emplace_back();
    for (const msg::module_ref& shard : spread) {
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

/// Requires: shard `s` of `table` exists.
model::shard_of sparse_client::shard(std::size_t table, std::size_t s) const {
  const auto count = static_cast<std::uint32_t>(tables_[table].size());
  return {static_cast<std::uint32_t>(s), count, options_.split};
}

sparse_client::context sparse_client::prepare(std::uint64_t step, std::shared_ptr<const model::batch> samples,
                                              context&& spent) const {
  context c = std::move(spent);
  c.clear();
  c.step = step;
  const bool asks = samples->size > 0 && servers() > 0;
  c.lookups.resize(asks ? servers() : 0);
  c.answers.resize(asks ? servers() : 0);
  c.tables.resize(asks ? tables_.size() : 0);
  if (asks) {
    for (auto& lookups : c.lookups) lookups.reserve(tables_.size());
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const model::bags& b = samples->tables[t];
      const bool has_some_rows = tables_[t].size() > 1 && options_.split == model::table_split::rows;
      const bool must =
          has_some_rows || options_.wire != kernels::row_dtype::f32 || spec_.tables[t].mode == kernels::pooling::max;
      const std::size_t distinct_end = must ? any_number : b.offsets.size();
      c.tables[t].is_pooled_here = (must || options_.remote) && plan_local(b, t, distinct_end, c);
      if (c.tables[t].is_pooled_here) continue;
      msg::bag_lookup wanted{0, as_blob(samples, b.indices), as_blob(samples, b.offsets), as_blob(samples, b.weights)};
      for (std::size_t s = 0; s < tables_[t].size(); ++s) {
        wanted.module = tables_[t][s].module;
        c.lookups[places_[t][s].server].push_back(wanted);
      }
    }
    if (options_.staging != nullptr && !options_.where->is_host() && !samples->dense.empty())
      c.dense = staged(*options_.where, samples->dense);
  }
  c.samples = std::move(samples);
  return c;
}

/// Returns the numbers as they are in `owner`, or a copy in the staging memory of the tables' device.
template <class Owner, class T>
msg::blob sparse_client::as_blob(const std::shared_ptr<Owner>& owner, const std::vector<T>& numbers) const {
  if (options_.staging == nullptr || numbers.empty()) return msg::blob::view(owner, numbers);
  return msg::blob::in_pinned_memory(staged(*options_.staging, numbers), numbers.size() * sizeof(T));
}

void sparse_client::free_copied(const context& c, model::batch& samples) const {
  TROUPE_ASSERT(&samples == c.samples.get());
  if (c.dense != nullptr) samples.dense = {};
  if (options_.staging == nullptr) return;
  for (std::size_t t = 0; t < c.tables.size(); ++t)
    if (!c.tables[t].is_pooled_here) samples.tables[t] = {};
}

/// Plans to look up each distinct row once, in the order of first occurrence. Returns false and plans nothing once
/// `distinct_end` distinct rows are found.
bool sparse_client::plan_local(const model::bags& b, std::size_t table, std::size_t distinct_end, context& c) const {
  // Shards of columns all get the same rows.
  const bool by_columns = options_.split == model::table_split::columns;
  const auto shards = static_cast<std::int64_t>(by_columns ? 1 : tables_[table].size());
  // With one shard, divisions would take most of the time.
  const auto shard_of = [shards](std::int64_t row) { return shards == 1 ? 0 : static_cast<std::size_t>(row % shards); };
  context::local& local = c.tables[table];
  std::vector<std::vector<std::int64_t>> wanted(static_cast<std::size_t>(shards));
  boost::unordered_flat_map<std::int64_t, std::int64_t> position;  // of a row among the requested rows of its shard
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
  std::vector<msg::blob> rows;
  for (std::vector<std::int64_t>& some : wanted) {
    const auto owner = std::make_shared<const std::vector<std::int64_t>>(std::move(some));
    rows.push_back(as_blob(owner, *owner));
  }
  for (std::size_t s = 0; s < tables_[table].size(); ++s)
    c.lookups[places_[table][s].server].push_back({tables_[table][s].module, rows[by_columns ? 0 : s], {}, {}});
  return true;
}

bool sparse_client::stays_on_device() const {
  if (options_.where->is_host() || options_.staging != options_.where || options_.remote) return false;
  if (options_.wire != kernels::row_dtype::f32) return false;
  const auto is_whole = [](const auto& shards) { return shards.size() == 1; };
  const auto is_pooled_by_max = [](const auto& table) { return table.mode == kernels::pooling::max; };
  return std::ranges::all_of(tables_, is_whole) && std::ranges::none_of(spec_.tables, is_pooled_by_max);
}

void sparse_client::offer(context& c, kernels::stream& on, network_input& input) const {
  if (options_.where->is_host() || c.lookups.empty()) return;
  input.resize(on, c.samples->size, layout_.width);
  if (options_.remote) return;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (c.tables[t].is_pooled_here || tables_[t].size() > 1) continue;
    const auto [at, i] = places_[t][0];
    c.lookups[at][i].destination =
        std::make_shared<const device_destination>(device_matrix{options_.where,
                                                                 input.size(),
                                                                 spec_.tables[t].dim,
                                                                 {input.data() + layout_.columns[t], input.features()},
                                                                 input.owner()});
  }
}

msg::lookup sparse_client::ask(context& c, std::size_t i, const msg::header& head, std::uint32_t staleness) const {
  TROUPE_ASSERT(i < c.lookups.size() && c.answers[i].tables.empty());
  ++c.unanswered;
  return {head, c.lookups[i], staleness, options_.wire};
}

void sparse_client::take(context& c, std::size_t i, msg::rows&& answer) {
  TROUPE_ASSERT(c.unanswered > 0 && c.answers[i].tables.empty());
  c.answers[i] = std::move(answer);
  --c.unanswered;
}

/// Returns the range of a shard's rows among those of a table that is pooled here.
sparse_client::context::range sparse_client::rows_of(const context::local& local, std::size_t shard) const {
  const std::size_t at = options_.split == model::table_split::columns ? 0 : shard;
  return {local.shard_begin[at], local.shard_begin[at + 1] - local.shard_begin[at]};
}

/// Finds the answers, by table and shard, and notes which are already in the input. Returns an error if an answer does
/// not match its request.
caf::error sparse_client::find_answers(context& c, const network_input& input,
                                       std::vector<const msg::tensor*>& found) const {
  TROUPE_ASSERT(c.unanswered == 0);
  const std::vector<msg::rows>& answers = c.answers;
  for (std::size_t t = 0; t < c.tables.size(); ++t) {
    const std::size_t dim = spec_.tables[t].dim;
    context::local& local = c.tables[t];
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const std::size_t columns = model::columns_on(dim, shard(t, s)).count;
      const std::size_t expected = local.is_pooled_here ? rows_of(local, s).count : c.samples->size;
      const auto [at, i] = places_[t][s];
      const msg::tensor* answer =
          at < answers.size() && i < answers[at].tables.size() ? &answers[at].tables[i] : nullptr;
      if (answer == nullptr || answer->type != options_.wire || answer->rows != expected || answer->cols != columns ||
          !answer->consistent())
        return make_failure(errc::shape_mismatch, "table {}: server {} did not answer with [{}, {}] of {}", t,
                            ranks_[at], expected, columns, name_of(options_.wire));
      const device_block* const block = block_of(answer->bytes);
      local.is_on_device = block != nullptr;
      if (block != nullptr && (local.is_pooled_here || block->numbers().data != input.data() + layout_.columns[t]))
        return make_failure(errc::wrong_context, "table {}: rows on a device, and not in the room that was offered", t);
      found.push_back(answer);
    }
  }
  return {};
}

caf::error sparse_client::pool(context& c, kernels::stream& on, network_input& input,
                               kernels::stream_timer* timer) const {
  std::vector<const msg::tensor*> found;
  if (auto error = find_answers(c, input, found)) return error;

  std::vector<model::column_range> from_host;
  std::size_t columns = 0;
  const auto take = [&](std::size_t first, std::size_t count) {
    columns += count;
    if (!from_host.empty() && from_host.back().first + from_host.back().count == first)
      from_host.back().count += count;
    else if (count > 0)
      from_host.push_back({first, count});
  };
  take(0, spec_.dense_features);
  for (std::size_t t = 0; t < tables_.size(); ++t)
    if (!c.tables[t].is_on_device) take(layout_.columns[t], spec_.tables[t].dim);
  auto* const staged_dense = reinterpret_cast<float*>(c.dense.get());
  const bool is_staged = staged_dense != nullptr && columns == spec_.dense_features;
  const kernels::row_matrix<float> here =
      is_staged ? kernels::row_matrix<float>{staged_dense, columns} : input.on_host(on, columns);
  const float* const dense = staged_dense != nullptr ? staged_dense : c.samples->dense.data();
  for (std::size_t row = 0; row < c.samples->size && spec_.dense_features > 0 && !is_staged; ++row)
    std::copy_n(dense + row * spec_.dense_features, spec_.dense_features, here.data + row * here.stride);
  float* column = here.data + spec_.dense_features;
  const msg::tensor* const* answer = found.data();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const model::bags& b = c.samples->tables[t];
    const std::size_t dim = spec_.tables[t].dim;
    context::local& local = c.tables[t];
    if (local.is_on_device) {
      ++answer;
      continue;
    }
    if (local.is_pooled_here) {
      local.rows.resize(local.shard_begin.back() * dim);
      for (std::size_t s = 0; s < tables_[t].size(); ++s)
        put_columns(**answer++,
                    {local.rows.data() + rows_of(local, s).first * dim + columns_on(dim, shard(t, s)).first, dim});
      kernels::host_stream().embedding_bag_forward(spec_.tables[t].mode, local.rows.data(), dim,
                                                   {local.indices, b.offsets, b.weights}, column, here.stride);
    } else {
      for (std::size_t s = 0; s < tables_[t].size(); ++s)
        put_columns(**answer++, {column + columns_on(dim, shard(t, s)).first, here.stride});
    }
    column += dim;
  }
  if (timer != nullptr && !from_host.empty()) timer->begin(static_cast<std::uint16_t>(trace::range_name::copy));
  input.upload(on, here.data, from_host);  // meanwhile, servers write the other columns
  if (timer != nullptr) timer->end();
  for (const msg::tensor* const one : found)
    if (const device_block* const block = block_of(one->bytes)) on.wait(block->written());
  return {};
}

std::vector<std::vector<msg::bag_gradient>> sparse_client::gradients(
    const context& c, const input_gradient& grad_input, const std::shared_ptr<const kernels::event>& written) const {
  const std::size_t stride = layout_.width;
  std::vector<std::vector<msg::bag_gradient>> result(servers());
  for (auto& grads : result) grads.reserve(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const model::bags& b = c.samples->tables[t];
    const std::size_t dim = spec_.tables[t].dim;
    const float* column = grad_input.host + layout_.columns[t];
    const context::local& local = c.tables[t];
    for (std::size_t s = 0; s < tables_[t].size() && !local.is_pooled_here; ++s) {
      const auto [at, i] = places_[t][s];
      const auto [first, count] = model::columns_on(dim, shard(t, s));
      const msg::bag_lookup& asked = c.lookups[at][i];
      msg::bag_gradient& given = result[at].emplace_back();
      given = {asked.module, asked.indices, asked.offsets, asked.weights, {}};
      if (local.is_on_device)
        given.grad = on_device(
            {options_.where, c.samples->size, dim, {grad_input.data + layout_.columns[t], stride}, grad_input.owner},
            written);
      else
        given.grad = cut_columns({column + first, stride}, c.samples->size, count);
    }
    if (!local.is_pooled_here) continue;
    auto row_grads = std::make_shared<std::vector<float>>(local.rows.size());
    kernels::embedding_bag_backward(spec_.tables[t].mode, local.rows.data(), dim, {local.indices, b.offsets, b.weights},
                                    column, stride, row_grads->data());
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const auto [at, i] = places_[t][s];
      const msg::bag_lookup& asked = c.lookups[at][i];
      const auto [begin, count] = rows_of(local, s);
      const auto [first, columns] = model::columns_on(dim, shard(t, s));
      const std::span<const float> part(row_grads->data() + begin * dim, count * dim);
      msg::tensor grad = columns < dim ? cut_columns({part.data() + first, dim}, count, columns)
                                       : msg::tensor(dtype::f32, count, dim, msg::blob::view(row_grads, part));
      if (options_.wire != kernels::row_dtype::f32)
        grad = encode_rows(grad.as<float>().data(), count, columns, options_.wire);
      result[at].push_back({asked.module, asked.indices, {}, {}, std::move(grad)});
    }
  }
  return result;
}

/// `numbers_at(server, i)` returns the tensor at position i of a server's list, as in the lookups.
template <class NumbersAt>
caf::error sparse_client::check_numbers(const context& c, const char* what, NumbersAt numbers_at) const {
  if (options_.wire == kernels::row_dtype::f32) return {};
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      const auto [at, i] = places_[t][s];
      const msg::tensor& numbers = numbers_at(at, i);
      const std::size_t bad = find_non_finite(numbers);
      if (bad == numbers.rows * numbers.cols) continue;
      const auto local_row = static_cast<std::size_t>(c.lookups[at][i].indices.as<std::int64_t>()[bad / numbers.cols]);
      const bool is_narrow = options_.wire == kernels::row_dtype::f16;
      const bool is_of_job = options_.table_text.empty();
      return make_failure(
          errc::not_finite, "{}: {} {} is NaN or Inf as {}; try {} {}, or a smaller learning rate{}",
          is_of_job ? fmt::format("table {}", t) : options_.table_text, what, model::whole_row(local_row, shard(t, s)),
          name_of(numbers.type), is_of_job ? "--wire-dtype" : "wire_dtype",
          is_narrow ? "bf16 or f32 (f16 ends at 65504)" : "f32", is_of_job ? " (--dense-lr, --sparse-lr)" : "");
    }
  }
  return {};
}

caf::error sparse_client::check_rows(const context& c) const {
  return check_numbers(c, "row",
                       [&](std::size_t at, std::size_t i) -> const msg::tensor& { return c.answers[at].tables[i]; });
}

caf::error sparse_client::check_gradients(const context& c,
                                          const std::vector<std::vector<msg::bag_gradient>>& grads) const {
  return check_numbers(c, "the gradient of row",
                       [&](std::size_t at, std::size_t i) -> const msg::tensor& { return grads[at][i].grad; });
}

void sparse_client::ask_for_norm() {
  norm_ = {};
  norm_owed_.assign(servers(), true);
}

caf::error sparse_client::take_norm(std::size_t i, const msg::squared_norm& share) {
  TROUPE_ASSERT(owes_norm(i));
  norm_owed_[i] = false;
  const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
  if (!sum) return make_failure(errc::shape_mismatch, "a norm that is not a sum");
  norm_.merge(*sum);
  return {};
}

double sparse_client::squared_norm_of_tables() const {
  TROUPE_ASSERT(std::ranges::none_of(norm_owed_, std::identity()));
  return norm_.value();
}

}  // namespace troupe::actors
