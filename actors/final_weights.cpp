#include "actors/final_weights.hpp"

#include <algorithm>
#include <utility>

#include "actors/failure.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

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

void final_weights::collect(const run_plan& plan, const table_shards& tables, std::function<void()> then) {
  TROUPE_ASSERT(plan_ == nullptr && requests_.none_open());
  TROUPE_ASSERT(trained_.size() == plan.what.trainers);
  plan_ = &plan;
  tables_ = &tables;
  then_ = std::move(then);
  std::vector<weights_digest::table> digested;
  shards_.resize(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    digested.push_back(
        {static_cast<std::uint64_t>(plan.data->spec().tables[t].rows), static_cast<std::uint32_t>(tables[t].size())});
    shards_[t].resize(tables[t].size());
    if (!plan.return_weights) continue;
    for (std::size_t s = 0; s < tables[t].size(); ++s)
      requests_.ask<msg::module_state>(
          tables[t][s].server, msg::state_dict{trace_.next(step(), plan.cause), tables[t][s].module},
          [this, t, s](msg::module_state& state) { shards_[t][s] = state.entries.at(0).second; }, then_);
  }
  digest_ = weights_digest(std::move(digested));
  ask_for_digests();
  if (requests_.none_open()) then_();
}

/// Asks for as many further digests of rows as may be under way.
void final_weights::ask_for_digests() {
  while (const auto next = digest_.next()) {
    const msg::module_ref& shard = (*tables_)[next->table][next->shard];
    requests_.ask<msg::tensor>(
        shard.server, msg::row_digests{trace_.next(step(), plan_->cause), shard.module, next->first, next->rows},
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

void final_weights::fill(msg::run_result& result) {
  result.steps = step();
  result.stopped = trained_[0].stopped;
  result.weights_digest = digest_.text(trained_[0].dense_digest);
  if (!plan_->return_weights) return;
  for (std::size_t t = 0; t < tables_->size(); ++t) {
    const model::table_spec& spec = plan_->data->spec().tables[t];
    result.tables.push_back(merge_shards(shards_[t], static_cast<std::uint64_t>(spec.rows), spec.dim));
  }
  result.dense = trained_[0].dense;
}

}  // namespace troupe::actors
