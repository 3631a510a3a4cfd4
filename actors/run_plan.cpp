#include "actors/run_plan.hpp"

#include <span>
#include <utility>

#include "actors/failure.hpp"
#include "actors/trainer.hpp"
#include "model/hybrid.hpp"

namespace troupe::actors {

namespace {

/// Reads the dense weights and the optimizer's buffers of a checkpoint, each flat.
caf::expected<std::vector<msg::tensor>> restore_dense(const run_plan& plan) {
  const model::hybrid_model model(plan.data->spec(), plan.what);
  std::vector<msg::tensor> buffers;
  for (int buffer = 0; buffer <= model::state_buffers(plan.what.dense_optimizer); ++buffer) {
    std::vector<float> flat(model.parameter_count());
    for (const model::named_parameter& one : model.parameters()) {
      const std::span part(flat.data() + one.first, one.count());
      if (auto read =
              model::read_dense(*plan.checkpoints.from, dense_tensor_name(one.name, static_cast<std::size_t>(buffer)),
                                std::as_writable_bytes(part));
          !read)
        return make_failure(errc::bad_input, read.error().message);
    }
    const std::uint64_t count = flat.size();
    buffers.push_back(msg::tensor::own(count, 1, std::move(flat)));
  }
  return buffers;
}

caf::error restore_positions(run_plan& plan) {
  plan.positions.assign(plan.what.trainers, {});
  if (!plan.checkpoints.from) return {};
  const model::checkpoint_manifest& saved = plan.checkpoints.from->manifest;
  plan.steps_done = saved.step;
  if (auto wrong = model::check_resumed(saved, plan.what, *plan.data, plan.total_steps))
    return make_failure(errc::bad_input, std::move(*wrong));
  if (plan.steps_done == 0) return {};
  const model::epoch_figures last = saved.position.last_epoch.value_or(model::epoch_figures{});
  const bool evaluated = last.auc || last.accuracy || last.log_loss || last.calibration || last.test_loss;
  auto dense = restore_dense(plan);
  if (!dense) return dense.error();
  for (std::uint32_t rank = 0; rank < plan.what.trainers; ++rank) {
    const model::rank_position& mine = saved.position.ranks.at(rank);
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

caf::expected<run_plan> plan_run(std::uint64_t run, const troupe::msg::run& order, const run_checkpoints& checkpoints) {
  auto parsed = model::parse_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  auto opened = model::open_dataset(*parsed);
  if (!opened) return make_failure(errc::bad_input, opened.error().message);
  run_plan plan{.run = run,
                .cause = msg::id_of(order.head),
                .what = std::move(*parsed),
                .data = std::move(*opened),
                .return_weights = order.return_weights,
                .checkpoints = checkpoints};
  plan.total_steps = total_steps(plan.what, *plan.data);
  if (auto error = restore_positions(plan)) return error;
  return plan;
}

}  // namespace troupe::actors
