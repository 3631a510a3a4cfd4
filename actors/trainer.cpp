#include "actors/trainer.hpp"

#include <algorithm>
#include <chrono>

#include "actors/actor_name.hpp"
#include "actors/device_checks.hpp"
#include "actors/failure.hpp"
#include "actors/inline_execution.hpp"
#include "actors/part_state.hpp"
#include "actors/replica_options.hpp"
#include "actors/traced_system.hpp"
#include "model/metrics.hpp"

namespace troupe::actors {

std::uint64_t total_steps(const model::job& what, const model::dataset& data) {
  return what.steps ? *what.steps : data.epochs().steps_until(what.epochs);
}

void trainer_state::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  name = fmt::format("trainer {}", rank);
  rank_ = rank;
  servers_ = servers;
  trace.start(self_, self_->system(), run, trainer_number(rank, servers), name);
}

void trainer_state::enter(trainer_phase next) {
  TROUPE_ASSERT(may_follow(phase_, next));
  phase_ = next;
}

/// Ends this actor, and with it the run. Only the first failure counts.
void trainer_state::fail(std::uint64_t at_step, const caf::error& cause) {
  // Lookups may be unanswered when a run is stopped; their answers are not needed.
  if (is_over(phase_)) return;
  enter(trainer_phase::failed);
  // An invalid row is the data's fault, so the error does not name the trainer that read it.
  if (cause == errc::bad_input) return self_->quit(cause);
  if (protocol::is_secondary(cause))
    self_->quit(make_failure(errc::peer_failed, "{}, step {}: an answer did not come: {}", name, at_step,
                             protocol::describe(cause)));
  else
    self_->quit(failure_of(name, at_step, cause));
}

// -- set-up -------------------------------------------------------------------

caf::result<msg::trained> trainer_state::handle(msg::train& order) {
  promise_ = self_->make_response_promise<msg::trained>();
  woken_ = own_execution(self_, devices_of(self_->system()));
  caf::error error = open_job(order);
  const bool leads = !error && rank_ % job_.parts() == 0;
  if (!error) error = leads ? set_up(order) : follow(order);
  if (error) fail(0, error);
  if (error || !leads) return promise_;
  resume(order.from);
  advance();
  return promise_;
}

caf::error trainer_state::open_job(const msg::train& order) {
  auto parsed = model::parse_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  job_ = std::move(*parsed);
  const msg::blob row_index = order.row_index.empty() ? msg::blob() : order.row_index.front();
  auto opened = model::open_dataset(job_, row_index.as<std::uint64_t>());
  if (!opened) return make_failure(errc::bad_input, opened.error().message);
  data_ = std::move(*opened);
  if (data_->digest() != order.data_digest)
    return make_failure(errc::bad_input,
                        "--data {}: the rows here are not the master's: their digest is {} here and {} there",
                        job_.data, data_->digest(), order.data_digest);
  replica_number_ = rank_ / job_.parts();
  peers_ = {.group = order.group, .group_number = order.group_number, .reports = order.reports, .remote = order.remote};
  if (order.remote) peers_.timeout = std::chrono::milliseconds(order.request_timeout_ms);
  return {};
}

caf::error trainer_state::set_up(msg::train& order) {
  if (order.tables.size() != data_->spec().tables.size() ||
      std::ranges::any_of(order.tables, &std::vector<msg::module_ref>::empty))
    return make_failure(errc::shape_mismatch, "shards of {} tables for a model of {}", order.tables.size(),
                        data_->spec().tables.size());
  schedule_ = {.total_steps = total_steps(job_, *data_),
               .epochs = data_->epochs(),
               .accumulate = job_.accumulate,
               .eval_every = data_->test_rows() > 0 ? job_.eval_every : 0,
               .saves = order.saves,
               .checkpoint_every = order.checkpoint_every,
               .changes_after = model::next_change(job_.elastic.memberships, order.from.steps_done).value_or(0)};
  if (replica_number_ == 0 && order.saves && (order.checkpoint_seconds > 0 || order.checkpoint_mtbf > 0))
    checkpoint_.take_by_time(order.checkpoint_seconds, order.checkpoint_mtbf);
  const compute_devices devices = devices_of(self_->system());
  kernels::device& device = devices.of_trainer(replica_number_);
  if (device.is_host() && job_.matmul_precision != kernels::matmul_precision::f32)
    return make_failure(errc::bad_input,
                        "--matmul-precision: the processor multiplies matrices in f32 only; use --device cuda");
  if (const auto fits = check_trainer_memory(job_, *data_, devices.step_graphs, device); !fits)
    return make_failure(errc::bad_input, "{}: {}", name, fits.error().message);
  network_ = job_.parts() == 1
                 ? std::make_unique<model::hybrid_model>(data_->spec(), job_)
                 : std::make_unique<model::hybrid_model>(
                       data_->spec(), job_, model::layers_of_stage(job_, data_->spec(), 0).end, job_.tensor_parallel);
  const bool uploads = devices.servers && !order.remote && !order.tables.empty();
  kernels::device* const of_tables = uploads ? &devices.of_server(order.tables[0][0].rank) : nullptr;
  if (network_->synchronizes() && job_.trainers > 1) others_.emplace(job_.trainers);
  client_ = sparse_client(data_->spec(), std::move(order.tables),
                          {.wire = job_.wire_dtype,
                           .remote = order.remote,
                           .where = &device,
                           .staging = of_tables,
                           .steps_ahead = model::lookups_ahead(job_.staleness),
                           .steps_together = job_.streams() ? job_.pipeline : 1,
                           .split = job_.table_split});
  const auto makers = batch_threads_of(self_->system());
  batches_.emplace(
      makers, makers ? makers->ahead(model::numbers_per_batch(job_, data_->spec())) : 0,
      [this](std::uint64_t of_step) { return prepare(of_step, data_->train_batch(of_step - 1, replica_number_)); });
  tests_ = test_share(replica_number_, job_.trainers, data_->test_rows(),
                      [this](const model::batch& samples, const float* outputs, model::predictions& counts) {
                        model::predict(data_->spec(), job_.loss, samples, outputs, counts);
                      });
  if (job_.parts() > 1) {
    parts_.emplace();
    parts_->slices.emplace(model::slice_place{0, job_.tensor_parallel}, trace,
                           [this](std::uint64_t number, const msg::tensor& share) { give_share(number, share); });
  }
  if (auto error = make_replica(order.from)) return error;
  if (captures_steps(devices)) {
    graphs_ = device.graphs();
    graphs_->turn_on();
    graphs_from_ = order.from.steps_done + 2;  // what the first one needs is not there yet
  }
  return job_.parts() > 1 ? lead() : caf::error();
}

/// Returns whether each step is a CUDA graph.
bool trainer_state::captures_steps(const compute_devices& devices) const {
  return devices.step_graphs && !fault_of_step_graphs(job_, data_->spec(), devices) && client_.stays_on_device();
}

caf::error trainer_state::make_replica(const msg::trainer_position& from) {
  const std::size_t inputs = model::lookups_ahead(job_.staleness) + 3;
  auto options = replica_options(job_, data_->spec(), place_of_part(job_, 0), parts_ ? &*parts_->slices : nullptr);
  options.grad_input_name = "the gradient of the tables' pooled rows";
  options.passes_max = 16 * inputs;  // ragged batches have many sizes
  replica_.emplace(*network_, model::loss_of(job_.loss, data_->spec().outputs),
                   devices_of(self_->system()).of_trainer(replica_number_), options);
  auto part = start_of_part(job_, *data_, from, 0);
  if (!part) return part.error();
  replica_->start(part->parameters, part->buffers);
  if (!part->saved.empty() && !replica_->restore(part->saved))
    return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
  if (trace.is_on()) replica_->time_work();
  return {};
}

/// Begins with the first thing to do after `from`.
void trainer_state::resume(const msg::trainer_position& from) {
  step = looked_up_ = from.steps_done;
  checkpoint_.start(step);
  tally_.resume(schedule_.epoch_after(step), from, epoch_tally::clock::now());
  if (!schedule_.is_last(step)) {
    enter(trainer_phase::looking_up);
    look_up_through(forwards_through(step + 1));
    return prepare_next();
  }
  // Only the evaluation can be left.
  const bool completes = schedule_.completes_epoch(step);
  if (!schedule_.evaluates_after(step) || (completes && from.evaluated)) return save_or_go_on();
  if (completes) report_epoch();
  begin_evaluation();
}

// -- lookups ------------------------------------------------------------------

/// Thread: any.
caf::expected<sparse_client::context> trainer_state::prepare(std::uint64_t of_step,
                                                             result<model::batch>&& samples) const {
  if (!samples) return make_failure(errc::bad_input, samples.error().message);
  const auto shared = std::make_shared<model::batch>(std::move(*samples));
  if (auto fault = model::check_batch(data_->spec(), *shared)) return make_failure(errc::bad_index, *fault);
  context made = client_.prepare(of_step, shared);
  client_.free_copied(made, *shared);
  return made;
}

/// Returns a batch, or an empty one if this trainer fails as it could not be made.
sparse_client::context trainer_state::prepared(std::uint64_t of_step, caf::expected<context>&& made) {
  if (made) return std::move(*made);
  fail(of_step, made.error());
  context none;
  none.step = of_step;
  return none;
}

/// Prepares the batch after the last one looked up, unless that is done.
void trainer_state::prepare_next() {
  const std::uint64_t last = ahead_.empty() ? looked_up_ : ahead_.back().step;
  if (last != looked_up_ || schedule_.is_last(last)) return;
  const actor_trace::range working(trace, trace::range_name::prepare_batch, last + 1, trace.latest());
  ahead_.push_back(prepared(last + 1, batches_->take(last + 1, schedule_.total_steps)));
}

/// Looks up the rows of the steps up to `last` that have not been looked up.
void trainer_state::look_up_through(std::uint64_t last) {
  last = std::min(last, schedule_.total_steps);
  while (looked_up_ < last && !is_over(phase_)) {
    prepare_next();
    ++looked_up_;
    // Where steps overlap, so many updates lack as are not sent; else as many as may.
    const auto lacking = job_.streams() ? static_cast<std::uint32_t>(looked_up_ - 1 - step) : job_.staleness;
    look_up(ahead_.back(), lacking, client_.input_of(looked_up_));
  }
}

/// Requires: until the answers have arrived, `wanted` stays in place and, on a device, `into` is not used otherwise.
void trainer_state::look_up(context& wanted, std::uint32_t staleness, network_input& into) {
  client_.offer(wanted, replica_->compute(), into);
  for (std::size_t s = 0; s < wanted.lookups.size(); ++s)
    ask<msg::rows>(client_.server(s), server_number(client_.rank(s)),
                   client_.ask(wanted, s, trace.next(wanted.step), staleness), [this, &wanted, s](msg::rows& answer) {
                     sparse_client::take(wanted, s, std::move(answer));
                     advance();
                   });
}

/// Returns whether this batch's step would block a thread that reads from other processes.
bool trainer_state::blocks_link(const model::batch& samples) const {
  return peers_.remote && is_long(samples) && dynamic_cast<inline_execution*>(self_->context()) != nullptr;
}

/// Continues until an answer is needed.
void trainer_state::advance() {
  while (waiting_ == 0) {
    switch (phase_) {
      case trainer_phase::looking_up:
        if (!has_rows(step + 1)) return;
        if (gives_way()) return;
        if (blocks_link(*ahead_.front().samples)) return after_others([] {});
        compute();
        break;
      case trainer_phase::reducing:
        if (clips_or_skips() && ends_update()) clip_and_step();
        if (!is_over(phase_)) step_done();
        break;
      case trainer_phase::evaluating:
        if (tested_.unanswered > 0) return;
        if (blocks_link(*tested_.samples)) return after_others([] {});
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

msg::program_trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                                  std::uint32_t servers) {
  self->state.start(run, rank, servers);
  fail_on_exceptions(self);
  return {
      recorded<msg::train>(self),         recorded<msg::stop>(self),           recorded<msg::trainer_ended>(self),
      recorded<msg::actor_query>(self),   recorded<msg::activation>(self),     recorded<msg::activation_gradient>(self),
      recorded<msg::part_outputs>(self),  recorded<msg::partial_sum>(self),    recorded<msg::part_query>(self),
      recorded<msg::gradient_norm>(self), recorded<msg::optimizer_step>(self),
  };
}

made_trainer program_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  const auto made = spawn_computing(system, devices_of(system).trainers, trainer, run, rank, servers);
  const auto whom = caf::actor_cast<caf::strong_actor_ptr>(made);
  return {made, [whom](trainer_peers peers) {
            auto* const self = caf::actor_cast<trainer_state::pointer>(whom);
            run_in(whom, [self, peers = std::move(peers)] { self->state.meet(peers); });
          }};
}

}  // namespace troupe::actors
