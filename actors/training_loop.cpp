// Set-up, lookups, and what follows what.

#include "actors/training_loop.hpp"

#include <algorithm>

#include "actors/actor_name.hpp"
#include "actors/device_advice.hpp"
#include "actors/failure.hpp"
#include "actors/job_failure.hpp"
#include "actors/memory_need.hpp"
#include "actors/part_state.hpp"
#include "actors/replica_options.hpp"
#include "actors/traced_system.hpp"
#include "base/error.hpp"
#include "model/metrics.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

training_loop::training_loop(trainer_context actor, const trainer_assignment& assigned,
                             std::vector<msg::part_actor> others)
    : trainer_body(std::move(actor)),
      trace_(actor_.trace),
      step_(actor_.step),
      assigned_(assigned),
      group_(actor_, assigned.group, assigned.group_number, assigned.replica),
      yield_(actor_.self, trace_, step_) {
  if (!others.empty()) make_parts(std::move(others));
}

void training_loop::begin(msg::train& order) {
  if (auto error = set_up(order)) return fail(0, error);
  start(order.from);
}

void training_loop::enter(trainer_phase next) {
  TROUPE_ASSERT(may_follow(phase_, next));
  phase_ = next;
}

/// Ends the actor, and with it the run. Only the first failure counts.
void training_loop::fail(std::uint64_t at_step, const caf::error& cause) {
  // Lookups may be unanswered when a run is stopped; their answers are not needed.
  if (is_over(phase_)) return;
  enter(trainer_phase::failed);
  fail_job(actor_, at_step, cause);
}

// -- set-up -------------------------------------------------------------------

/// Makes what the steps need.
caf::error training_loop::set_up(msg::train& order) {
  if (order.tables.size() != spec().tables.size() ||
      std::ranges::any_of(order.tables, &std::vector<msg::module_ref>::empty))
    return make_failure(errc::shape_mismatch, "shards of {} tables for a model of {}", order.tables.size(),
                        spec().tables.size());
  const compute_devices devices = devices_of(actor_.self->system());
  kernels::device& device = devices.of_trainer(assigned_.replica);
  if (device.is_host() && job().matmul_precision != kernels::matmul_precision::f32)
    return make_failure(errc::bad_input,
                        "--matmul-precision: the processor multiplies matrices in f32 only; use --device cuda");
  if (const auto fits = check_trainer_memory(job(), *assigned_.data, devices.step_graphs, device); !fits)
    return make_failure(errc::bad_input, "{}: {}", actor_.name, fits.error().message);
  plan(order);
  network_ = model::make_stage(job(), spec(), 0);
  if (const auto added = only_on_processor(job(), *network_.module); added && !device.is_host())
    return make_failure(errc::bad_input, "--device cuda: {}; use --device cpu", *added);
  if (network_.module->synchronizes() && job().trainers > 1) others_.emplace(job().trainers);
  make_client(order, devices, device);
  const auto words = [&] { return fmt::format("the network's {} parameters", network_.parameter_count()); };
  if (auto error = with_memory_for(words, [&] { return make_replica(order.from, device); })) return error;
  if (captures_steps(devices)) {
    captured_.graphs = device.graphs();
    captured_.graphs->turn_on();
    captured_.from = order.from.steps_done + 2;  // what the first one needs is not there yet
  }
  if (parts_) make_passes();
  return {};
}

/// Decides what happens when.
void training_loop::plan(const msg::train& order) {
  schedule_ = {.total_steps = total_steps(job(), *assigned_.data),
               .epochs = assigned_.data->epochs(),
               .accumulate = job().accumulate,
               .eval_every = assigned_.data->test_rows() > 0 ? job().eval_every : 0,
               .saves = order.saves,
               .checkpoint_every = order.checkpoint_every,
               .changes_after = model::next_change(job().elastic.memberships, order.from.steps_done).value_or(0)};
  checkpoint_.plan(order, assigned_.replica);
}

/// Makes what needs the tables, and the batches.
void training_loop::make_client(msg::train& order, const compute_devices& devices, kernels::device& device) {
  const bool uploads = devices.servers && !order.remote && !order.tables.empty();
  kernels::device* const of_tables = uploads ? &devices.of_server(order.tables[0][0].rank) : nullptr;
  client_ = sparse_client(spec(), std::move(order.tables),
                          {.wire = job().wire_dtype,
                           .remote = order.remote,
                           .where = &device,
                           .staging = of_tables,
                           .steps_ahead = model::lookups_ahead(job().staleness),
                           .steps_together = job().streams() ? job().pipeline : 1,
                           .split = job().table_split});
  const auto makers = batch_threads_of(actor_.self->system());
  coming_.emplace(order.from.steps_done, schedule_.total_steps, makers,
                  makers ? makers->ahead(model::numbers_per_batch(job(), spec())) : 0, [this](std::uint64_t of_step) {
                    return prepare(of_step, assigned_.data->train_batch(of_step - 1, assigned_.replica));
                  });
  tested_.share = test_share(assigned_.replica, job().trainers, assigned_.data->test_rows(),
                             [this](const model::batch& samples, const float* outputs, model::predictions& counts) {
                               model::predict(spec(), job().loss, samples, outputs, counts);
                             });
}

/// Returns whether each step is a CUDA graph.
bool training_loop::captures_steps(const compute_devices& devices) const {
  return devices.step_graphs && !fault_of_step_graphs(job(), spec(), devices) && client_.stays_on_device();
}

caf::error training_loop::make_replica(const msg::trainer_position& from, kernels::device& device) {
  const std::size_t inputs = model::lookups_ahead(job().staleness) + 3;
  auto options = replica_options(job(), spec(), model::place_of_part(job(), 0), parts_ ? &*parts_->slices : nullptr);
  options.grad_input_name = "the gradient of the tables' pooled rows";
  options.passes_max = 16 * inputs;  // ragged batches have many sizes
  replica_.emplace(network_, model::loss_of(job().loss, spec().outputs), device, options);
  auto part = start_of_part(job(), *assigned_.data, from, 0);
  if (!part) return part.error();
  replica_->start(part->parameters, part->buffers);
  if (!part->saved.empty() && !replica_->restore(part->saved))
    return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
  if (trace_.is_on()) replica_->time_work();
  return {};
}

/// Begins with the first thing to do after `from`. Requires: `set_up`.
void training_loop::start(const msg::trainer_position& from) {
  step_ = from.steps_done;
  checkpoint_.start(step_);
  tally_.resume(schedule_.epoch_after(step_), from, epoch_tally::clock::now());
  if (!schedule_.is_last(step_)) {
    enter(trainer_phase::looking_up);
    look_up_through(forwards_through(step_ + 1));
    prepare_next();
  } else {  // only the evaluation can be left
    const bool completes = schedule_.completes_epoch(step_);
    if (!schedule_.evaluates_after(step_) || (completes && from.evaluated)) {
      save_or_go_on();
    } else {
      if (completes) report_epoch();
      begin_evaluation();
    }
  }
  advance();
}

// -- lookups ------------------------------------------------------------------

/// Thread: any.
caf::expected<sparse_client::context> training_loop::prepare(std::uint64_t of_step,
                                                             result<model::batch>&& samples) const {
  if (!samples) return make_failure(errc::bad_input, samples.error().message);
  const auto shared = std::make_shared<model::batch>(std::move(*samples));
  if (auto fault = model::check_batch(spec(), *shared)) return make_failure(errc::bad_index, *fault);
  try {
    const troupe::shape dense(shared->size, spec().dense_features);
    if (shared->size > 0) nn::check_ids(*network_.module, {dense, shared->dense.data()});
  } catch (const error& refused) {
    return make_failure(errc::bad_input, refused.what());
  }
  context made = client_.prepare(of_step, shared);
  client_.free_copied(made, *shared);
  return made;
}

/// Prepares the batch after the last one looked up, unless that is done.
void training_loop::prepare_next() {
  const auto next = coming_->lacking();
  if (!next || is_over(phase_)) return;
  const actor_trace::range working(trace_, trace::range_name::prepare_batch, *next, trace_.latest());
  if (auto error = coming_->prepare()) fail(*next, error);
}

/// Looks up the rows of the steps up to `last` that have not been looked up.
void training_loop::look_up_through(std::uint64_t last) {
  last = std::min(last, schedule_.total_steps);
  while (coming_->looked_up() < last) {
    prepare_next();
    if (is_over(phase_)) return;
    context& next = coming_->look_up_next();
    // Where steps overlap, so many updates lack as are not sent; else as many as may.
    const auto lacking = job().streams() ? static_cast<std::uint32_t>(next.step - 1 - step_) : job().staleness;
    look_up(next, lacking, client_.input_of(next.step));
  }
}

/// Requires: until the answers have arrived, `wanted` stays in place and, on a device, `into` is not used otherwise.
void training_loop::look_up(context& wanted, std::uint32_t staleness, network_input& into) {
  client_.offer(wanted, replica_->compute(), into);
  for (std::size_t s = 0; s < wanted.lookups.size(); ++s)
    ask<msg::rows>(client_.server(s), server_number(client_.rank(s)),
                   client_.ask(wanted, s, trace_.next(wanted.step), staleness), [this, &wanted, s](msg::rows& answer) {
                     sparse_client::take(wanted, s, std::move(answer));
                     advance();
                   });
}

// -- what follows what --------------------------------------------------------

/// Continues until an answer is needed.
void training_loop::advance() {
  while (waiting_ == 0) {
    switch (phase_) {
      case trainer_phase::looking_up:
        // The rows of all steps that begin before the gradient of the next one is taken.
        if (!coming_->have_rows(forwards_through(step_ + 1))) return;
        if (yields_to_all()) return;
        if (blocks_link(*coming_->first().samples)) return after_others([] {});
        compute();
        break;
      case trainer_phase::reducing:
        if (clips_or_skips() && ends_update()) clip_and_step();
        if (!is_over(phase_)) step_done();
        break;
      case trainer_phase::evaluating:
        if (tested_.current.unanswered > 0) return;
        if (blocks_link(*tested_.current.samples)) return after_others([] {});
        score();
        break;
      case trainer_phase::saving:
        checkpoint_.is_due() ? begin_save() : go_on();
        break;
      case trainer_phase::idle:
      case trainer_phase::done:
      case trainer_phase::failed:
        return;
    }
  }
}

/// Returns whether a step's backward pass takes so long that other actors should not wait for its thread.
bool training_loop::is_long(const model::batch& samples) const {
  constexpr std::size_t many_multiplications = std::size_t{1} << 22;  // takes about as long as waking a thread
  return replica_->is_on_host() && samples.size * replica_->multiply_adds() >= many_multiplications;
}

/// Returns whether this batch's step would block a thread that reads from other processes.
bool training_loop::blocks_link(const model::batch& samples) const {
  return assigned_.remote && is_long(samples) && dynamic_cast<inline_execution*>(actor_.self->context()) != nullptr;
}

/// Calls `what` and goes on, after the actors that get messages from now on.
void training_loop::after_others(std::function<void()> what) {
  ++waiting_;
  yield_.to_woken([what = std::move(what), this] {
    what();
    arrived();
  });
}

/// Now and then lets everybody else have a turn first. Trainers without tables wait for each other only, and a worker
/// runs the actors first that became ready last: on a single one, the master would never hear a wish to stop.
bool training_loop::yields_to_all() {
  if (assigned_.replica != 0 || client_.servers() > 0 || !replica_->is_on_host()) return false;
  if (!yield_.to_all([this] { arrived(); })) return false;
  ++waiting_;
  return true;
}

}  // namespace troupe::actors
