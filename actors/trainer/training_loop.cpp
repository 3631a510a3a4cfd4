// Set-up, and the sequence of the work.

#include "actors/trainer/training_loop.hpp"

#include <algorithm>
#include <cmath>

#include "actors/common/actor_name.hpp"
#include "actors/common/device_advice.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/trainer/captured_network.hpp"
#include "actors/trainer/clipping.hpp"
#include "actors/trainer/memory_need.hpp"
#include "actors/trainer/pipeline_leader.hpp"
#include "actors/trainer/stream_leader.hpp"
#include "actors/trainer/whole_network.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

training_loop::training_loop(trainer_context actor, const trainer_assignment& assigned,
                             std::vector<msg::part_actor> others)
    : trainer_body(std::move(actor)),
      trace_(actor_.trace),
      step_(actor_.step),
      work_(actor_, assigned, [this] { advance(); }),
      others_(std::move(others)) {}

void training_loop::begin(msg::train& order) {
  if (auto error = set_up(order)) return fail(0, error);
  start(order.from);
}

// -- set-up -------------------------------------------------------------------

/// Makes the objects that the steps need.
caf::error training_loop::set_up(msg::train& order) {
  const model::data_spec& spec = work_.spec();
  if (order.tables.size() != spec.tables.size() ||
      std::ranges::any_of(order.tables, &std::vector<msg::module_ref>::empty))
    return make_failure(errc::shape_mismatch, "shards of {} tables for a model of {}", order.tables.size(),
                        spec.tables.size());
  const compute_devices devices = devices_of(actor_.self->system());
  kernels::device& device = devices.of_trainer(work_.assigned.replica);
  if (device.is_host() && job().matmul_precision != kernels::matmul_precision::f32)
    return make_failure(errc::bad_input,
                        "--matmul-precision: the processor multiplies matrices in f32 only; use --device cuda");
  if (const auto fits = check_trainer_memory(job(), *work_.assigned.data, devices.step_graphs, device); !fits)
    return make_failure(errc::bad_input, "{}: {}", actor_.name, fits.error().message);
  plan(order);
  work_.network = model::make_stage(job(), spec, 0);
  if (const auto added = only_on_processor(job(), *work_.network.module); added && !device.is_host())
    return make_failure(errc::bad_input, "--device cuda: {}; use --device cpu", *added);
  make_client(order, devices, device);
  make_body(devices, device);
  return body_->begin(order.from, device);
}

/// Plans steps, evaluations and checkpoints.
void training_loop::plan(const msg::train& order) {
  const model::dataset& data = *work_.assigned.data;
  work_.schedule = {.total_steps = total_steps(job(), data),
                    .epochs = data.epochs(),
                    .accumulate = job().accumulate,
                    .eval_every = data.test_rows() > 0 ? job().eval_every : 0,
                    .saves = order.saves,
                    .checkpoint_every = order.checkpoint_every,
                    .changes_after = model::next_change(job().elastic.memberships, order.from.steps_done).value_or(0)};
  work_.checkpoint.plan(order, work_.assigned.replica);
}

/// Makes the client of the tables, the source of batches, and the evaluation.
void training_loop::make_client(msg::train& order, const compute_devices& devices, kernels::device& device) {
  const trainer_assignment& assigned = work_.assigned;
  const bool uploads = devices.servers && !order.remote && !order.tables.empty();
  kernels::device* const of_tables = uploads ? &devices.of_server(order.tables[0][0].rank) : nullptr;
  work_.client = sparse_client(work_.spec(), std::move(order.tables),
                               {.wire = job().wire_dtype,
                                .remote = order.remote,
                                .where = &device,
                                .staging = of_tables,
                                .steps_ahead = model::lookups_ahead(job().staleness),
                                .steps_together = job().steps_together(),
                                .split = job().table_split});
  const auto makers = batch_threads_of(actor_.self->system());
  work_.coming.emplace(order.from.steps_done, work_.schedule.total_steps, makers,
                       makers ? makers->ahead(model::numbers_per_batch(job(), work_.spec())) : 0,
                       [this](std::uint64_t of_step) {
                         const trainer_assignment& mine = work_.assigned;
                         return work_.prepare(of_step, mine.data->train_batch(of_step - 1, mine.replica));
                       });
  work_.evaluation = rank_evaluation(assigned.replica, job(), *assigned.data);
}

/// Chooses how batches pass through the network.
void training_loop::make_body(const compute_devices& devices, kernels::device& device) {
  const bool captures =
      devices.step_graphs && !fault_of_step_graphs(job(), work_.spec(), devices) && work_.client.stays_on_device();
  if (others_.empty() && captures)
    body_ = std::make_unique<captured_network>(work_, *device.graphs());
  else if (others_.empty())
    body_ = std::make_unique<whole_network>(work_);
  else if (job().streams())
    body_ = std::make_unique<stream_leader>(work_, std::move(others_));
  else
    body_ = std::make_unique<pipeline_leader>(work_, std::move(others_));
}

/// Begins with the first work after `from`. Requires: `set_up`.
void training_loop::start(const msg::trainer_position& from) {
  const step_schedule& schedule = work_.schedule;
  step_ = from.steps_done;
  work_.checkpoint.start(step_);
  work_.tally.resume(schedule.epoch_after(step_), from, epoch_tally::clock::now());
  if (!schedule.is_last(step_)) {
    enter(trainer_phase::looking_up);
    body_->look_up_for(step_ + 1);
    work_.prepare_next();
  } else {  // at most the evaluation remains
    const bool completes = schedule.completes_epoch(step_);
    if (!schedule.evaluates_after(step_) || (completes && from.evaluated)) {
      save_or_continue();
    } else {
      if (completes) report_epoch();
      begin_evaluation();
    }
  }
  advance();
}

// -- sequence -----------------------------------------------------------------

/// Continues until an answer is needed.
void training_loop::advance() {
  while (work_.waiting == 0) {
    switch (work_.phase) {
      case trainer_phase::looking_up:
        if (!body_->has_rows_for(step_ + 1)) return;
        if (yields_to_all()) return;
        if (blocks_link(*work_.coming->first().samples)) return work_.after_others([] {});
        enter(trainer_phase::reducing);
        body_->run();
        break;
      case trainer_phase::reducing:
        if (work_.clips_or_skips() && work_.ends_update()) clip_and_step();
        if (!work_.is_over()) step_done();
        break;
      case trainer_phase::evaluating:
        if (work_.evaluation.rows().unanswered > 0) return;
        if (blocks_link(work_.evaluation.samples())) return work_.after_others([] {});
        score();
        break;
      case trainer_phase::saving:
        work_.checkpoint.is_due() ? begin_save() : proceed();
        break;
      case trainer_phase::idle:
      case trainer_phase::done:
      case trainer_phase::failed:
        return;
    }
  }
}

/// Returns whether this batch's step would block a thread that reads from other processes.
bool training_loop::blocks_link(const model::batch& samples) const {
  return work_.assigned.remote && work_.is_long(samples) &&
         dynamic_cast<inline_execution*>(actor_.self->context()) != nullptr;
}

/// Lets all other actors run first, from time to time. Trainers without tables wait only for each other, and a worker
/// first runs the actors that became ready last: with a single worker, the master would never receive a request to
/// stop.
bool training_loop::yields_to_all() {
  if (work_.assigned.replica != 0 || work_.client.servers() > 0 || !work_.replica->is_on_host()) return false;
  if (!work_.yield.to_all([this] { work_.arrived(); })) return false;
  ++work_.waiting;
  return true;
}

/// Applies the gradient, clipped by its global norm as PyTorch's clip_grad_norm_ does, or skips this optimizer step.
/// All ranks decide the same, since they have the same reduced gradient and norms.
void training_loop::clip_and_step() {
  sparse_client& client = work_.client;
  std::optional<actor_trace::range> waiting;
  if (!work_.replica->is_on_host()) waiting.emplace(trace_, trace::range_name::device_wait, step_);
  const model::exact_sum of_network = body_->squared_norm();
  waiting.reset();
  if (!work_.check_finite(step_)) return;
  const double norm = std::sqrt(of_network.value() + client.squared_norm_of_tables());
  const auto [applies, factor] = order_for(norm, job().clip_norm);
  if (!applies && job().nan == model::nan_policy::stop)
    return fail(step_, make_failure(errc::not_finite, "the gradient's norm is {}; {}", kind_of(norm), lower_rates));
  for (std::size_t s = 0; s < client.servers(); ++s)
    work_.ask<msg::committed>(client.server(s), server_number(client.rank(s)),
                              msg::optimizer_step{trace_.next(step_), work_.assigned.replica, applies, factor},
                              [](const msg::committed&) {});
  body_->decide(applies, factor);
  if (!applies) work_.tally.add_skipped();
}

void training_loop::step_done() {
  const step_schedule& schedule = work_.schedule;
  step_votes& votes = work_.votes;
  votes.count({.stop = step_ == schedule.changes_after});
  const bool continues = !votes.stops() && !votes.saves() && schedule.continues_after(step_);
  if (!continues) body_->settle();
  if (work_.is_over()) return;
  trace_.step_ends(step_ + 1);
  if (work_.assigned.replica == 0) {
    if (auto where = work_.tally.report_progress(epoch_tally::clock::now())) {
      where->head = trace_.next(step_);
      send_report(*where);
    }
  }
  if (schedule.completes_epoch(step_)) report_epoch();
  if (evaluates_now()) return begin_evaluation();
  save_or_continue();
}

}  // namespace troupe::actors
