#include "actors/master/run_plan.hpp"

#include <algorithm>
#include <utility>

#include "actors/common/device_advice.hpp"
#include "actors/common/failure.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "model/hybrid.hpp"

namespace troupe::actors {

namespace {

caf::error restore_starts(run_plan& plan, const model::job& what, const model::dataset& data) {
  if (!plan.checkpoints.from) return {};
  const model::checkpoint_manifest& saved = plan.checkpoints.from->manifest;
  plan.steps_done = saved.step;
  if (auto wrong = model::check_resumed(saved, what, data, plan.total_steps))
    return make_failure(errc::bad_input, std::move(*wrong));
  if (plan.steps_done == 0) return {};
  const model::epoch_figures last = saved.position.last_epoch.value_or(model::epoch_figures{});
  const bool has_own = std::ranges::any_of(last.own, [](const auto& one) { return one.value.has_value(); });
  const bool has_all = std::ranges::all_of(what.metrics, [&](const auto& one) {
    return std::ranges::find(last.own, one->name, &model::own_figures::figure::name) != last.own.end();
  });
  const bool evaluated =
      has_all && (last.auc || last.accuracy || last.log_loss || last.calibration || last.test_loss || has_own);
  const auto dense = plan.dense.read(*plan.checkpoints.from, model::state_buffers(what.dense_optimizer));
  if (!dense) return dense.error();
  const auto ranks = model::positions_of(saved.position, plan.trainers);
  for (std::uint32_t rank = 0; rank < plan.trainers; ++rank) {
    const model::rank_position& mine = ranks[rank];
    plan.starts[rank].position = {.steps_done = plan.steps_done,
                                  .samples = mine.samples,
                                  .loss_sum = mine.loss_sum,
                                  .seconds = saved.position.epoch_seconds,
                                  .dense = *dense,
                                  .evaluated = evaluated};
  }
  return {};
}

}  // namespace

run_plan parts_of(const model::job& what, const std::shared_ptr<const model::dataset>& data) {
  const model::hybrid_model network(data->spec(), what);
  return {.servers = what.servers,
          .trainers = what.trainers,
          .parts = what.parts(),
          .slices = what.tensor_parallel,
          .settings = model::to_settings(what),
          .data = data,
          .tables = plan_tables(what, data->spec().tables),
          .dense = {network.parameters(), network.buffers()},
          .figures = {what.loss, what.metrics},
          .epochs = data->epochs(),
          .total_steps = total_steps(what, *data),
          .starts = std::vector<trainer_start>(what.trainers)};
}

caf::expected<run_plan> plan_job(const troupe::msg::run& order, const run_checkpoints& checkpoints) {
  const auto parsed = model::shared_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  const std::shared_ptr<const model::job>& what = *parsed;
  const auto data = model::open_dataset(*what);
  if (!data) return make_failure(errc::bad_input, data.error().message);
  if (what->servers == 0 && !(*data)->spec().tables.empty())
    return make_failure(errc::bad_input, "--servers 0: the model has tables, so it needs at least 1");
  if (what->pipeline > 1 && what->stages.empty())
    return make_failure(errc::bad_input, "--pipeline {}: the order does not say where stages begin", what->pipeline);
  run_plan plan = parts_of(*what, *data);
  plan.checkpoints = checkpoints;
  plan.devices = advice_for(*what);
  if (auto error = restore_starts(plan, *what, **data)) return error;
  if (const auto change = model::next_change(what->elastic.memberships, plan.steps_done)) {
    plan.changes.after = *change;
    plan.changes.to = model::trainers_at(what->elastic.memberships, *change);
  }
  plan.changes.check = [what, data = *data](std::uint32_t trainers, std::uint64_t step) {
    return what->elastic.is_on() ? model::check_change(*what, *data, trainers, step)
                                 : model::check_trainers(*what, trainers);
  };
  return plan;
}

}  // namespace troupe::actors
