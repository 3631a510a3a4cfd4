#include "actors/run_plan.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "actors/device_advice.hpp"
#include "actors/embedding_bag_arguments.hpp"
#include "actors/failure.hpp"
#include "actors/trainer_assignment.hpp"
#include "model/hybrid.hpp"
#include "model/placement.hpp"

namespace troupe::actors {

namespace {

/// Reads the dense weights, the optimizer's buffers and the network's buffers of a checkpoint, each flat.
caf::expected<std::vector<msg::tensor>> restore_dense(const run_plan& plan, int state_buffers) {
  std::vector<msg::tensor> all;
  const auto restore = [&](const std::vector<nn::parameter>& tensors, std::size_t buffer) -> caf::error {
    std::size_t count = 0;
    for (const nn::parameter& one : tensors) count += one.count();
    std::vector<float> flat(count);
    for (const nn::parameter& one : tensors) {
      const std::span part(flat.data() + one.first, one.count());
      if (auto read = model::read_dense(*plan.checkpoints.from, dense_tensor_name(one.name, buffer),
                                        std::as_writable_bytes(part));
          !read)
        return make_failure(errc::bad_input, read.error().message);
    }
    all.push_back(msg::tensor::own(count, 1, std::move(flat)));
    return {};
  };
  for (std::size_t buffer = 0; buffer <= static_cast<std::size_t>(state_buffers); ++buffer)
    if (auto error = restore(plan.dense, buffer)) return error;
  if (plan.dense_buffers.empty()) return all;
  if (auto error = restore(plan.dense_buffers, 0)) return error;
  return all;
}

caf::error restore_positions(run_plan& plan, const model::job& what, const model::dataset& data) {
  if (!plan.checkpoints.from) return {};
  const model::checkpoint_manifest& saved = plan.checkpoints.from->manifest;
  plan.steps_done = saved.step;
  if (auto wrong = model::check_resumed(saved, what, data, plan.total_steps))
    return make_failure(errc::bad_input, std::move(*wrong));
  if (plan.steps_done == 0) return {};
  const model::epoch_figures last = saved.position.last_epoch.value_or(model::epoch_figures{});
  const bool has_own = std::ranges::any_of(last.own, [](const auto& one) { return one.value.has_value(); });
  const bool evaluated = last.auc || last.accuracy || last.log_loss || last.calibration || last.test_loss || has_own;
  auto dense = restore_dense(plan, model::state_buffers(what.dense_optimizer));
  if (!dense) return dense.error();
  const auto ranks = model::positions_of(saved.position, plan.trainers);
  for (std::uint32_t rank = 0; rank < plan.trainers; ++rank) {
    const model::rank_position& mine = ranks[rank];
    plan.positions[rank] = {.steps_done = plan.steps_done,
                            .samples = mine.samples,
                            .loss_sum = mine.loss_sum,
                            .seconds = saved.position.epoch_seconds,
                            .dense = *dense,
                            .evaluated = evaluated};
  }
  return {};
}

}  // namespace

std::string dense_tensor_name(const std::string& parameter, std::size_t buffer) {
  return buffer == 0 ? parameter : fmt::format("{}.state.{}", parameter, buffer - 1);
}

run_plan parts_of(const model::job& what, const std::shared_ptr<const model::dataset>& data) {
  const model::hybrid_model network(data->spec(), what);
  run_plan plan{.servers = what.servers,
                .trainers = what.trainers,
                .parts = what.parts(),
                .slices = what.tensor_parallel,
                .settings = model::to_settings(what),
                .data_digest = data->digest(),
                .row_index = [data] { return data->row_index(); },
                .accumulate = what.accumulate,
                .staleness = what.staleness,
                .initial_weights = [data] { return data->start(); },
                .dense = network.parameters(),
                .dense_buffers = network.buffers(),
                .figures = {what.loss, what.metrics},
                .epochs = data->epochs(),
                .total_steps = total_steps(what, *data),
                .positions = std::vector<msg::trainer_position>(what.trainers)};
  const auto& specs = data->spec().tables;
  if (specs.empty()) return plan;
  auto places = model::place_tables(specs, what.servers, what.table_split);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const auto split = places[t].size() > 1 ? what.table_split : model::table_split::rows;
    plan.tables.push_back({embedding_bag_spec(what, specs[t], t, split), static_cast<std::uint64_t>(specs[t].rows),
                           specs[t].dim, std::move(places[t]), split});
  }
  return plan;
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
    return make_failure(errc::bad_input, "--pipeline {}: the order does not tell where stages begin", what->pipeline);
  run_plan plan = parts_of(*what, *data);
  plan.checkpoints = checkpoints;
  plan.devices = advice_for(*what);
  if (auto error = restore_positions(plan, *what, **data)) return error;
  if (const auto change = model::next_change(what->elastic.memberships, plan.steps_done)) {
    plan.changes_after = *change;
    plan.changes_to = model::trainers_at(what->elastic.memberships, *change);
  }
  plan.check_trainers = [what, data = *data](std::uint32_t trainers, std::uint64_t step) {
    return what->elastic.is_on() ? model::check_change(*what, *data, trainers, step)
                                 : model::check_trainers(*what, trainers);
  };
  return plan;
}

}  // namespace troupe::actors
