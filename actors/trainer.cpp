#include "actors/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/device_checks.hpp"
#include "actors/inline_execution.hpp"
#include "actors/run_in.hpp"
#include "actors/traced_system.hpp"
#include "actors/weights.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

std::uint64_t total_steps(const job& what, const dataset& data) {
  return what.steps ? *what.steps : what.epochs * data.steps_per_epoch();
}

void trainer_state::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  name = fmt::format("trainer {}", rank);
  rank_ = rank;
  trace.start(self_, self_->system(), run, trainer_number(rank, servers), name);
}

/// Ends this actor, and by that the run; the first failure counts.
void trainer_state::fail(std::uint64_t at_step, const caf::error& cause) {
  // Lookups may be on their way when a run is stopped: nobody needs them.
  if (phase_ == phase::done || std::exchange(failed_, true)) return;
  // What is wrong with a row is so for whichever trainer read it first.
  if (cause == errc::bad_input) return self_->quit(cause);
  if (is_secondary(cause))
    self_->quit(make_failure(errc::peer_failed,
                             fmt::format("{}, step {}: an answer did not come: {}", name, at_step, describe(cause))));
  else
    self_->quit(failure_of(name, at_step, cause));
}

// -- set-up and lookups -------------------------------------------------------

caf::result<trained> trainer_state::handle(train& order) {
  promise_ = self_->make_response_promise<trained>();
  if (auto error = set_up(order)) {
    fail(0, error);
    return promise_;
  }
  begin_epoch();
  epoch_samples_ = order.from.samples;
  epoch_loss_ = order.from.loss_sum;
  epoch_begin_ -= std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(order.from.seconds));
  if (step == total_steps_) {
    // All that can be left to do is to score the test rows.
    if (!evaluates() || (completes_epoch() && order.from.evaluated)) {
      save_or_go_on();
    } else {
      if (completes_epoch()) report_epoch();
      begin_evaluation();
    }
  } else {
    look_up_through(step + 1);
    prepare_next();
  }
  advance();
  return promise_;
}

caf::error trainer_state::set_up(train& order) {
  auto parsed = parse_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  job_ = std::move(*parsed);
  auto opened = open_dataset(job_);
  if (!opened) return make_failure(errc::bad_input, opened.error().message);
  data_ = std::move(*opened);
  if (data_->digest() != order.data_digest)
    return make_failure(
        errc::bad_input,
        fmt::format("--data {}: the rows here are not the master's: their digest is {} here and {} there", job_.data,
                    data_->digest(), order.data_digest));
  total_steps_ = total_steps(job_, *data_);
  model_ = std::make_unique<hybrid_model>(data_->spec(), job_);
  exchange_ = table_exchange(*model_, std::move(order.tables), job_.wire_dtype, order.remote);
  remote_ = order.remote;
  if (remote_) patience_ = std::chrono::milliseconds(order.request_timeout_ms);
  group_ = order.group;
  group_number_ = order.group_number;
  reports_ = order.reports;
  saves_ = order.saves;
  checkpoint_every_ = order.checkpoint_every;

  const compute_devices devices = devices_of(self_->system());
  kernels::device& device = devices.of_trainer(rank_);
  if (device.is_host() && job_.matmul_precision != kernels::matmul_precision::f32)
    return make_failure(errc::bad_input,
                        "--matmul-precision: the processor multiplies matrices in f32 only; use --device cuda");
  if (const auto full = check_trainer_memory(job_, data_->spec(), device))
    return make_failure(errc::bad_input, fmt::format("{}: {}", name, full->message));
  compute_ = device.make_stream(job_.matmul_precision);
  copies_ = device.make_stream();
  exchange_.compute_on(device);
  inputs_.resize(device.is_host() ? 1 : lookups_ahead(job_.staleness) + 2);
  scalars_.resize(*compute_, 1);

  auto given = data_->start();
  const std::vector<float> weights = given ? std::move(given->dense) : model_->initial_parameters(job_.seed);
  if (weights.size() != model_->parameter_count())
    return make_failure(errc::shape_mismatch, fmt::format("{} initial dense weights for a network of {}",
                                                          weights.size(), model_->parameter_count()));
  assign<float>(*compute_, weights, weights_);
  if (!device.is_host()) grads_.resize(*compute_, weights.size());
  const int buffers = state_buffers(job_.dense_optimizer);
  const auto fill = [&](kernels::device_array<float>& state, float value) {
    state.resize(*compute_, weights.size());
    compute_->fill(weights.size(), value, state.data());
  };
  if (buffers >= 1) fill(first_state_, initial_state(job_.dense_optimizer));
  if (buffers >= 2) fill(second_state_, 0.0F);

  constexpr double first_bucket_mib = 1;
  constexpr double mib = 1024 * 1024;
  bucket_plan_ =
      plan_buckets(model_->ranges(), static_cast<std::size_t>(std::min(job_.bucket_mib, first_bucket_mib) * mib),
                   static_cast<std::size_t>(job_.bucket_mib * mib));
  buckets_.resize(bucket_plan_.size());
  check_results_.resize(*compute_, 2 * (bucket_plan_.size() + 1));  // of a step, and of the one before
  return restore(order.from);
}

caf::error trainer_state::restore(const trainer_position& from) {
  step = looked_up_ = from.steps_done;
  // That of the last step is gone on with even if it is over.
  epoch_ = (step == total_steps_ ? step - 1 : step) / data_->steps_per_epoch();
  if (from.dense.empty()) return {};
  std::vector<kernels::device_array<float>*> buffers = {&weights_};
  for (auto* state : {&first_state_, &second_state_})
    if (state->size() > 0) buffers.push_back(state);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (from.dense.size() != buffers.size() || from.dense[i].as<float>().size() != buffers[i]->size())
      return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
    assign(*compute_, from.dense[i].as<float>(), *buffers[i]);
  }
  return {};
}

trainer_state::context trainer_state::prepare(std::uint64_t of_step, result<batch>&& samples) {
  context c;
  c.step = of_step;
  if (!samples) {
    fail(of_step, make_failure(errc::bad_input, samples.error().message));
    return c;
  }
  auto shared = std::make_shared<const batch>(std::move(*samples));
  if (auto fault = check_batch(model_->spec(), *shared)) {
    fail(of_step, make_failure(errc::bad_index, *fault));
    return c;
  }
  c.answers.resize(shared->size > 0 ? exchange_.servers() : 0);
  if (c.answers.empty())
    c.plan.samples = std::move(shared);
  else
    c.plan = exchange_.prepare(std::move(shared));
  return c;
}

/// Prepares the batch after those whose rows have been asked for, unless it is.
void trainer_state::prepare_next() {
  const std::uint64_t prepared = ahead_.empty() ? looked_up_ : ahead_.back().step;
  if (prepared != looked_up_ || prepared == total_steps_) return;
  const actor_trace::range working(trace, trace::range_name::prepare_batch, prepared + 1, trace.latest());
  ahead_.push_back(prepare(prepared + 1, data_->train_batch(prepared, rank_)));
}

/// Asks for the rows of the coming steps up to `last`, where that has not been done.
void trainer_state::look_up_through(std::uint64_t last) {
  last = std::min(last, total_steps_);
  while (looked_up_ < last && !failed_) {
    prepare_next();
    ++looked_up_;
    look_up(ahead_.back(), job_.staleness, input_of(looked_up_));
  }
}

/// `wanted` stays where it is until the answers are here, and on a device `into` is for nothing else.
void trainer_state::look_up(context& wanted, std::uint32_t staleness, network_input& into) {
  if (!is_on_host() && !wanted.answers.empty()) {
    into.resize(*compute_, wanted.plan.samples->size, model_->in_features());
    exchange_.offer_columns(wanted.plan, into);
  }
  for (std::size_t s = 0; s < wanted.answers.size(); ++s) {
    ++wanted.unanswered;
    lookup message{trace.next(wanted.step), wanted.plan.lookups[s], staleness, dtype_of(job_.wire_dtype)};
    ask<rows>(exchange_.server(s), server_number(exchange_.rank(s)), std::move(message),
              [this, &wanted, s](rows& answer) {
                wanted.answers[s] = std::move(answer);
                --wanted.unanswered;
                advance();
              });
  }
}

void trainer_state::arrived() {
  --waiting_;
  advance();
}

/// Whether a batch's step would keep the thread that also reads what other processes send.
bool trainer_state::blocks_link(const batch& samples) const {
  return remote_ && is_long(samples) && dynamic_cast<inline_execution*>(self_->context()) != nullptr;
}

/// Goes on as long as nothing is waited for.
void trainer_state::advance() {
  while (waiting_ == 0 && !failed_) {
    switch (phase_) {
      case phase::looking_up:
        if (ahead_.front().unanswered > 0) return;
        if (blocks_link(*ahead_.front().plan.samples)) return after_others([] {});
        compute();
        break;
      case phase::reducing:
        if (concludes() && ends_update()) conclude();
        if (!failed_) step_done();
        break;
      case phase::evaluating:
        if (tested_.unanswered > 0) return;
        if (blocks_link(*tested_.plan.samples)) return after_others([] {});
        score();
        break;
      case phase::saving:
        go_on();
        break;
      case phase::done:
        return;
    }
  }
}

trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                     std::uint32_t servers) {
  self->state.start(run, rank, servers);
  fail_on_exceptions(self);
  return {
      recorded<train>(self),
      recorded<stop>(self),
      recorded<actor_query>(self),
  };
}

}  // namespace troupe
