#include "actors/master/final_weights.hpp"

#include <algorithm>

#include "actors/common/failure.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

msg::tensor merge_shards(const std::vector<msg::tensor>& shards, std::uint64_t rows, std::uint64_t dim,
                         model::table_split split) {
  msg::tensor_buffer merged(rows, dim);
  for (std::uint32_t s = 0; s < shards.size(); ++s) {
    const msg::tensor& shard = shards[s];
    const model::shard_of which{s, static_cast<std::uint32_t>(shards.size()), split};
    const model::column_range columns = model::columns_on(dim, which);
    for (std::uint64_t row = 0; row < model::rows_on(rows, which); ++row)
      kernels::decode({shard.bytes.data() + row * columns.count * size_of(shard.type), shard.type}, columns.count,
                      merged.data() + model::whole_row(row, which) * dim + columns.first);
  }
  return std::move(merged).freeze();
}

std::optional<weights_digest::piece> weights_digest::next() {
  if (to_ask_.empty() && !open_round()) return std::nullopt;
  const piece first = to_ask_.front();
  to_ask_.pop_front();
  return first;
}

/// Returns false if no rows are left, or another round would exceed `bytes_max`.
bool weights_digest::open_round() {
  // Two rounds fit: one is requested while the other is digested.
  constexpr std::uint64_t round_bytes_max = bytes_max / 2;
  while (next_table_ < tables_.size() &&
         next_row_ * tables_[next_table_].shards_of_rows() >= tables_[next_table_].rows) {
    ++next_table_;
    next_row_ = 0;
  }
  if (next_table_ == tables_.size()) return false;
  const table& from = tables_[next_table_];
  const std::uint64_t shards = from.shards_of_rows();
  const std::uint64_t stride =
      std::clamp<std::uint64_t>(round_bytes_max / bytes_of_row(from) / shards, 1, msg::row_digests_max);
  const std::uint64_t begin = next_row_ * shards;
  const std::uint64_t end = std::min(from.rows, begin + stride * shards);
  const std::uint64_t bytes = (end - begin) * bytes_of_row(from);
  if (bytes_under_way_ > 0 && bytes_under_way_ + bytes > bytes_max) return false;
  round opened{std::vector<msg::tensor>(from.shards), 0, end - begin, next_table_};
  for (std::uint32_t s = 0; s < from.shards; ++s) {
    const std::uint64_t here = (end - begin + shards - 1 - s % shards) / shards;
    if (here == 0) break;
    to_ask_.push_back({next_table_, s, next_row_, here, rounds_digested_ + rounds_.size()});
    ++opened.missing;
  }
  bytes_under_way_ += bytes;
  rounds_.push_back(std::move(opened));
  next_row_ += stride;
  return true;
}

bool weights_digest::add(const piece& part, msg::tensor digests) {
  if (!answers(part, digests)) return false;
  round& its = rounds_[part.round - rounds_digested_];
  its.shards[part.shard] = std::move(digests);
  --its.missing;
  for (; !rounds_.empty() && rounds_.front().missing == 0; ++rounds_digested_) {
    digest(rounds_.front());
    bytes_under_way_ -= rounds_.front().rows * bytes_of_row(tables_[rounds_.front().table]);
    rounds_.pop_front();
  }
  return true;
}

bool weights_digest::answers(const piece& part, const msg::tensor& digests) const {
  if (digests.rows != part.rows || !digests.consistent()) return false;
  const table& of = tables_[part.table];
  if (of.columns == 0) return digests.type == dtype::u64 && digests.cols == 1;
  const model::shard_of shard{part.shard, of.shards, model::table_split::columns};
  return kernels::is_row_dtype(digests.type) && digests.cols == model::columns_on(of.columns, shard).count;
}

void weights_digest::digest(const round& whole) {
  const std::size_t count = whole.shards.size();
  std::vector<std::byte> bits;  // the bits of a row
  for (std::uint64_t row = 0; row < whole.rows; ++row) {
    if (tables_[whole.table].columns == 0) {
      take(whole.shards[row % count].as<std::uint64_t>()[row / count]);
      continue;
    }
    bits.clear();
    for (const msg::tensor& columns : whole.shards) {
      const std::size_t width = columns.cols * size_of(columns.type);
      const std::byte* const from = columns.bytes.data() + row * width;
      bits.insert(bits.end(), from, from + width);
    }
    take(digest_of(bits.data(), bits.size()));
  }
}

std::string weights_digest::text(std::uint64_t dense_digest) {
  take(dense_digest);
  return fmt::format("{:016x}", digest_.value());
}

// -- of a run ---------------------------------------------------------------------

void final_weights::add(std::uint32_t rank, msg::trained&& result) {
  trained_.resize(std::max<std::size_t>(trained_.size(), std::size_t{rank} + 1));
  trained_[rank] = std::move(result);
}

caf::error final_weights::check() const {
  for (std::size_t rank = 1; rank < trained_.size(); ++rank)
    if (trained_[rank].dense_digest != trained_[0].dense_digest)
      return make_failure(errc::wrong_context, "master, step {}: the dense weights of trainers 0 and {} differ",
                          trained_[rank].steps, rank);
  return {};
}

void final_weights::settle(const run_plan& plan, const table_shards& tables, const std::function<void()>& then) {
  for (const auto& shards : tables)
    for (const msg::module_ref& shard : shards)
      requests_.ask<msg::tensor>(
          shard.server, msg::row_digests{trace_.next(step_of(shard), plan.cause), shard.module, 0, 0},
          [](msg::tensor& /*none*/) {}, then);
  if (requests_.none_open()) then();
}

void final_weights::collect(const run_plan& plan, const table_shards& tables, std::function<void()> then) {
  TROUPE_ASSERT(plan_ == nullptr && requests_.none_open());
  TROUPE_ASSERT(trained_.size() == plan.trainers);
  plan_ = &plan;
  tables_ = &tables;
  then_ = std::move(then);
  std::vector<weights_digest::table> digested;
  shards_.resize(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const bool by_columns = plan.tables.all[t].split == model::table_split::columns;
    digested.push_back({plan.tables.all[t].rows, static_cast<std::uint32_t>(tables[t].size()),
                        by_columns ? plan.tables.all[t].dim : 0});
    shards_[t].resize(tables[t].size());
    if (!plan.return_weights) continue;
    for (std::size_t s = 0; s < tables[t].size(); ++s)
      requests_.ask<msg::module_state>(
          tables[t][s].server, msg::state_dict{trace_.next(step_of(tables[t][s]), plan.cause), tables[t][s].module},
          [this, t, s](msg::module_state& state) { shards_[t][s] = state.entries.at(0).second; }, then_);
  }
  digest_ = weights_digest(std::move(digested));
  ask_for_digests();
  if (requests_.none_open()) then_();
}

/// Returns the last step for which the shard's server has been sent gradients.
std::uint64_t final_weights::step_of(const msg::module_ref& shard) const {
  std::uint64_t last = 0;
  for (const msg::trained& one : trained_) {
    if (one.server_steps.empty()) return step();
    if (shard.rank < one.server_steps.size()) last = std::max(last, one.server_steps[shard.rank]);
  }
  return last;
}

/// Requests further row digests, up to the limit of `weights_digest`.
void final_weights::ask_for_digests() {
  while (const auto next = digest_.next()) {
    const msg::module_ref& shard = (*tables_)[next->table][next->shard];
    requests_.ask<msg::tensor>(
        shard.server,
        msg::row_digests{trace_.next(step_of(shard), plan_->cause), shard.module, next->first, next->rows},
        [this, part = *next, rank = shard.rank](msg::tensor& digests) -> caf::error {
          if (!digest_.add(part, std::move(digests)))
            return make_failure(errc::shape_mismatch,
                                "master, step {}: table {}: server {} did not answer with {} row digests", step(),
                                part.table, rank, part.rows);
          ask_for_digests();
          return {};
        },
        then_);
  }
}

std::optional<double> final_weights::bubble() const {
  double steps = 0;
  double passes = 0;
  for (const msg::trained& one : trained_) {
    steps += one.step_seconds;
    passes += one.pass_seconds;
  }
  if (plan_->parts == plan_->slices || steps == 0) return std::nullopt;  // there is a single stage
  return 1 - passes / (plan_->parts * steps);
}

void final_weights::fill(msg::run_result& result) {
  result.steps = step();
  result.bubble = bubble();
  result.stopped = trained_[0].stopped;
  result.weights_digest = digest_.text(digest_of(trained_[0].dense.bytes.data(), trained_[0].dense.bytes.size()));
  if (!plan_->return_weights) return;
  for (std::size_t t = 0; t < tables_->size(); ++t) {
    const planned_table& table = plan_->tables.all[t];
    result.tables.push_back(merge_shards(shards_[t], table.rows, table.dim, table.split));
  }
  result.dense = trained_[0].dense;
}

}  // namespace troupe::actors
