#include "actors/table_setup.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/assert.hpp"

namespace troupe::actors {

namespace {

constexpr bool may_follow(table_setup::state from, table_setup::state to) {
  using enum table_setup::state;
  constexpr std::pair<table_setup::state, table_setup::state> table[] = {
      {none, making}, {none, ready}, {making, filling}, {making, ready}, {filling, ready}};
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

/// Returns the rows of a whole table that belong to shard `shard` of `shards`.
std::vector<float> rows_of(std::size_t shard, std::size_t shards, const std::vector<float>& table, std::size_t dim) {
  std::vector<float> part;
  for (std::size_t row = shard; row * dim < table.size(); row += shards) {
    const float* from = table.data() + row * dim;
    part.insert(part.end(), from, from + dim);
  }
  return part;
}

}  // namespace

void table_setup::enter(state next) {
  TROUPE_ASSERT(may_follow(state_, next));
  TROUPE_ASSERT(requests_.none_open());
  state_ = next;
}

void table_setup::start(const run_plan& plan, const std::vector<msg::parameter_server_actor>& servers,
                        std::function<void()> then) {
  plan_ = &plan;
  then_ = std::move(then);
  tables_.resize(plan.tables.size());
  if (plan.tables.empty()) return finish();
  enter(state::making);
  for (std::size_t t = 0; t < plan.tables.size(); ++t) {
    const planned_table& table = plan.tables[t];
    const auto shards = static_cast<std::uint32_t>(table.servers.size());
    tables_[t].resize(shards);
    for (std::uint32_t s = 0; s < shards; ++s)
      requests_.ask<msg::module_ref>(
          servers[table.servers[s]],
          msg::instantiate{
              .head = trace_.next(0, plan.cause),
              .spec = table.spec,
              .shard = s,
              .shards = shards,
              .trainers = plan.trainers,
              .accumulate = plan.accumulate,
              .staleness = plan.staleness,
              .steps_done = plan.server_steps.empty() ? plan.steps_done : plan.server_steps[table.servers[s]],
              .checkpoint_memory = plan.checkpoints.memory},
          [this, t, s](msg::module_ref& made) { tables_[t][s] = std::move(made); }, [this] { fill(); });
  }
}

void table_setup::fill() {
  if (plan_->steps_done > 0) return restore();
  const auto given = plan_->initial_weights ? plan_->initial_weights() : std::nullopt;
  given ? load(*given) : finish();
}

void table_setup::restore() {
  enter(state::filling);
  for (const auto& shards : tables_)
    for (const msg::module_ref& shard : shards)
      requests_.ask<msg::committed>(
          shard.server,
          msg::restore_module{trace_.next(0, plan_->cause), shard.module,
                              std::filesystem::absolute(plan_->checkpoints.from->directory), plan_->steps_done},
          [](msg::committed&) {}, [this] { finish(); });
}

void table_setup::load(const model::initial_weights& given) {
  enter(state::filling);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const std::size_t dim = plan_->tables[t].dim;
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      auto part = rows_of(s, tables_[t].size(), given.tables[t], dim);
      const std::uint64_t rows = part.size() / dim;
      requests_.ask<msg::committed>(
          tables_[t][s].server,
          msg::load_state_dict{trace_.next(0, plan_->cause),
                               tables_[t][s].module,
                               {{"weight", msg::tensor::own(rows, dim, std::move(part))}}},
          [](msg::committed&) {}, [this] { finish(); });
    }
  }
}

void table_setup::finish() {
  enter(state::ready);
  then_();
}

}  // namespace troupe::actors
