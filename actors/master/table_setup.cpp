#include "actors/master/table_setup.hpp"

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

/// Returns the part of a whole table with `dim` columns that `shard` holds.
msg::tensor part_of(const std::vector<float>& table, std::size_t dim, model::shard_of shard) {
  const auto [first, count] = model::columns_on(dim, shard);
  const std::uint64_t rows = model::rows_on(table.size() / dim, shard);
  msg::tensor_buffer part(rows, count);
  for (std::uint64_t row = 0; row < rows; ++row)
    std::copy_n(table.data() + model::whole_row(row, shard) * dim + first, count, part.data() + row * count);
  return std::move(part).freeze();
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
  tables_.resize(plan.tables.all.size());
  if (plan.tables.all.empty()) return finish();
  enter(state::making);
  for (std::size_t t = 0; t < plan.tables.all.size(); ++t) {
    const planned_table& table = plan.tables.all[t];
    const auto shards = static_cast<std::uint32_t>(table.servers.size());
    tables_[t].resize(shards);
    for (std::uint32_t s = 0; s < shards; ++s)
      requests_.ask<msg::module_ref>(
          servers[table.servers[s]],
          msg::instantiate{.head = trace_.next(0, plan.cause),
                           .spec = table.spec,
                           .shard = s,
                           .shards = shards,
                           .trainers = plan.trainers,
                           .accumulate = plan.tables.accumulate,
                           .staleness = plan.tables.staleness,
                           .steps_done = plan.tables.steps_of(table.servers[s], plan.steps_done),
                           .checkpoint_memory = plan.checkpoints.memory},
          [this, t, s](msg::module_ref& made) { tables_[t][s] = std::move(made); }, [this] { fill(); });
  }
}

void table_setup::fill() {
  if (plan_->steps_done > 0) return restore();
  const auto given = plan_->data ? plan_->data->start() : std::nullopt;
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
    const planned_table& table = plan_->tables.all[t];
    for (std::size_t s = 0; s < tables_[t].size(); ++s) {
      requests_.ask<msg::committed>(
          tables_[t][s].server,
          msg::load_state_dict{trace_.next(0, plan_->cause),
                               tables_[t][s].module,
                               {{"weight", part_of(given.tables[t], table.dim, table.shard(s))}}},
          [](msg::committed&) {}, [this] { finish(); });
    }
  }
}

void table_setup::finish() {
  enter(state::ready);
  then_();
}

}  // namespace troupe::actors
