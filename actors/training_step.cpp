// A step: forward, loss, backward, and the gradient's reduction and application.

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/clipping.hpp"
#include "actors/failure.hpp"
#include "actors/faults.hpp"
#include "actors/training_loop.hpp"
#include "base/exception_text.hpp"
#include "model/random.hpp"

namespace troupe::actors {

/// The step's passes; where the network asks the other ranks in their midst, they may wait.
void training_loop::compute() {
  enter(trainer_phase::reducing);
  if (!others_) return run_step();
  ++waiting_;
  others_->begin([this] { run_step(); });
  meet_or_end();
}

/// Asks the group for what a pass waits for, as one more bucket of the step, until the pass is over.
void training_loop::meet_or_end() {
  const std::span<const float> mine = others_->wanted();
  if (mine.empty()) return arrived();
  const std::uint32_t bucket = replica_->buckets() + others_->meetings();
  reduce(bucket, 1, replica_->as_share(mine), {.stop = votes_.own().stop}, [this](const msg::reduced& mean) {
    if (is_over(phase_)) return;
    others_->go_on(replica_->on_host(mean.grad));
    meet_or_end();
  });
}

void training_loop::run_step() {
  step_ = coming_->first().step;
  trace_.step_begins(step_);
  if (captured_.have(step_)) {
    begin_graph();
    if (is_over(phase_)) return;
    captured_.launched = std::move(now_.rows);
  }
  now_.rows = coming_->take_first();
  if (job().streams()) return stream_through_parts();
  tally_.add_rows(now_.rows.answers);
  look_up_through(step_ + model::lookups_ahead(job().staleness));

  if (schedule_.begins_update(step_)) replica_->open(schedule_.update(step_));
  votes_.vote_to_save(ends_update() && checkpoint_.is_due_by_time());
  now_.has_gradient = now_.rows.samples->size > 0;
  if (parts_) return pass_through_parts();
  if (now_.has_gradient) {
    if (auto error = backward_inputs(*now_.rows.samples)) return fail(step_, error);
  } else {
    for (std::uint32_t i = 0; others_ && i < job().micro_batches; ++i) replica_->stand_by(*others_);
    if (replica_->open_passes() > 0) take_losses(true);
    replica_->synchronize();  // instead of waiting for a loss: see `sparse_client::input_of`
    judge(step_ - 1);
    tally_.add_absent();
  }
  if (is_over(phase_)) return;
  const auto rest = [this] {
    reduce_gradient();
    prepare_next();
  };
  const bool long_rest = now_.has_gradient && is_long(*now_.rows.samples);
  if (long_rest) after_others(rest);
  send_gradients();
  if (is_over(phase_)) return;
  if (clips_or_skips() && ends_update()) ask_for_norms();
  look_up_through(step_ + 1);
  if (!long_rest) rest();
}

/// Runs forward, loss, and backward to the tables' rows. On a device enqueues the whole backward pass, and then waits.
caf::error training_loop::backward_inputs(const model::batch& samples) {
  if (auto error = begin_pass(samples)) return error;
  if (replica_->is_on_host()) {
    take_loss();
    return {};
  }
  backward_parameters();
  const actor_trace::range working(trace_, trace::range_name::forward_backward, step_);
  const bool needs_loss = waits_for_loss();
  if (needs_loss || captured_.graphs == nullptr || !captured_.graphs->are_captured()) take_losses(needs_loss);
  return {};
}

/// Launches the graph of the step before, waits for the one before that while the device has it to do, and begins this
/// step's.
void training_loop::begin_graph() {
  captured_.graphs->begin();
  while (replica_->open_passes() > 1 && !is_over(phase_)) {
    {
      const actor_trace::range waiting(trace_, trace::range_name::device_wait, step_);
      replica_->wait_for_pass();
    }
    take_loss();
  }
  note_device_work();
}

/// Returns whether the host needs this step's loss, or its rows' gradient, before it goes on. Trainers that do not wait
/// for each other's gradients (async) would hear from a server of a NaN that one of them has not seen yet.
bool training_loop::waits_for_loss() const {
  return clips_or_skips() || job().staleness == model::any_staleness || sparse_client::needs_host(now_.rows);
}

/// Waits for the device, and takes the losses that have come: that of the step before, and with `all` this step's.
/// Without, the host waits until the device has this step's input: the device then has its passes to do.
void training_loop::take_losses(bool all) {
  {
    const actor_trace::range waiting(trace_, trace::range_name::device_wait, step_);
    if (all)
      replica_->copies().synchronize();
    else
      replica_->begun().wait();
  }
  note_device_work();
  while (replica_->open_passes() > (all ? 0 : 1) && !is_over(phase_)) take_loss();
}

/// Fills the step's input, and checks the rows.
caf::error training_loop::pool_input(context& of, network_input& input) {
  input.resize(replica_->compute(), of.samples->size, replica_->in_features());
  for (kernels::stream_timer* one : replica_->timers()) one->set_step(step_);
  if (auto error = client_.pool(of, replica_->copies(), input, &replica_->copy_timer())) return error;
  if (job().nan == model::nan_policy::stop)
    if (auto error = client_.check_rows(of)) return error;
  if (replica_->is_on_host()) sparse_client::free_answers(of);
  return {};
}

/// The key of the random numbers in a step's passes.
std::uint64_t training_loop::pass_key(std::uint64_t of_step) const {
  return model::random_key(job().seed, model::random_stream::network_passes, of_step, assigned_.replica);
}

caf::error training_loop::begin_pass(const model::batch& samples) {
  const actor_trace::range working(trace_, trace::range_name::forward_backward, step_, trace_.latest());
  network_input& input = client_.input_of(step_);
  if (auto error = pool_input(now_.rows, input)) return error;
  const bool has_tables = client_.servers() > 0;
  const dense_replica::pass pass{.step = step_,
                                 .size = samples.size,
                                 .input = input.data(),
                                 .classes = samples.classes,
                                 .values = samples.values,
                                 .key = pass_key(step_),
                                 .ranks = others_ ? &*others_ : nullptr,
                                 .wants_grad_input = has_tables,
                                 .wants_it_on_host = has_tables && sparse_client::needs_host(now_.rows),
                                 .is_waited_for = captured_.graphs != nullptr};
  with_memory_for([&] { return fmt::format("the network's pass of {} samples", samples.size); },
                  [&] { replica_->begin_pass(pass); });
  return {};
}

/// Takes the first loss that has not been taken, which the host knows now, and decides whether there is a gradient.
void training_loop::take_loss() {
  const auto [of_step, size, loss] = replica_->end_pass();
  if (!judge(of_step - 1)) return;
  if (take_step_loss(of_step, size, loss))
    judge(of_step);
  else if (!is_over(phase_))
    replica_->poison();
}

/// Takes a batch's loss. Returns false if it is not finite: then this trainer has failed, or the batch has no gradient.
bool training_loop::take_step_loss(std::uint64_t of_step, std::size_t size, double loss) {
  tally_.add_loss(loss, size);
  if (std::isfinite(loss)) return true;
  if (job().nan == model::nan_policy::skip)
    now_.has_gradient = false;
  else
    fail(of_step, make_failure(errc::not_finite, replica_->words_of_loss(loss)));
  return false;
}

/// Returns whether the mean is this rank's own share, so that no other actor need be woken for it. Not without tables:
/// between steps the trainer waits for rows, and then hears what others tell it.
bool training_loop::reduces_alone() const {
  return job().trainers == 1 && replica_->batches() == 1 && (client_.servers() > 0 || parts_);
}

/// Sends the gradient's buckets to the group. On the processor, first computes them.
void training_loop::reduce_gradient() {
  if (now_.has_gradient && replica_->is_on_host()) return backward_parameters();
  if (!ends_update()) return;
  for (std::uint32_t i = 0; i < replica_->buckets(); ++i) send_bucket(i);
}

void training_loop::backward_parameters() {
  const actor_trace::range working(trace_, trace::range_name::backward_parameters, step_);
  replica_->backward_parameters(ends_update(), [this](std::uint32_t bucket) {
    if (judge(step_)) send_bucket(bucket);
  });
}

void training_loop::send_bucket(std::uint32_t bucket) {
  const std::uint32_t weight = replica_->weight(bucket, assigned_.replica);
  msg::tensor share = replica_->share(bucket, assigned_.replica);
  if (auto* wrong = faults(); wrong != nullptr && wrong->skips_reduce(assigned_.replica, step_, bucket))
    return replica_->give_up(bucket);
  if (reduces_alone()) {
    count_votes(votes_.own());
    return replica_->take(bucket, share);
  }
  ++waiting_;
  reduce(bucket, weight, std::move(share), votes_.own(), [this, bucket](const msg::reduced& mean) {
    count_votes({mean.stop, mean.save});
    replica_->take(bucket, mean.grad);
    arrived();
  });
}

void training_loop::send_gradients() {
  std::vector<std::vector<msg::bag_gradient>> grads(client_.servers());
  if (now_.has_gradient && !grads.empty()) {
    const auto& of_input = replica_->grad_input();
    if (auto* wrong = faults()) wrong->gradient(assigned_.replica, step_, {of_input.host(), of_input.size()});
    grads = client_.gradients(now_.rows, of_input, replica_->passed());
    if (replica_->is_on_host()) replica_->free_grad_input();
    if (job().nan == model::nan_policy::stop)
      if (auto error = client_.check_gradients(now_.rows, grads)) return fail(step_, error);
  }
  const bool rides = ends_update() && !clips_or_skips();
  const bool keeps = checkpoint_.take_keeps();
  for (std::size_t s = 0; s < grads.size(); ++s) {
    msg::gradient message{trace_.next(step_), assigned_.replica, now_.has_gradient, rides, std::move(grads[s]), keeps};
    if (auto* wrong = faults()) wrong->signs(assigned_.replica, step_, message);
    actor_.self->send(client_.server(s), std::move(message));
  }
}

void training_loop::ask_for_norms() {
  client_.ask_for_norm();
  ask_parts_for_norms();
  for (std::size_t s = 0; s < client_.servers(); ++s) {
    ++waiting_;
    ask<msg::squared_norm>(client_.server(s), server_number(client_.rank(s)),
                           msg::gradient_norm{trace_.next(step_), assigned_.replica},
                           [this, s](const msg::squared_norm& share) {
                             if (auto error = client_.take_norm(s, share)) return fail(step_, error);
                             arrived();
                           });
  }
}

/// Applies the gradient, clipped by its global norm as PyTorch's clip_grad_norm_ does, or skips this optimizer step.
/// All ranks decide the same, since they have the same reduced gradient and norms.
void training_loop::clip_and_step() {
  std::optional<actor_trace::range> waiting;
  if (!replica_->is_on_host()) waiting.emplace(trace_, trace::range_name::device_wait, step_);
  model::exact_sum of_network = replica_->mean_squared_norm();
  if (parts_) of_network.merge(parts_->squared_norm);
  waiting.reset();
  if (!judge(step_)) return;
  const double norm = std::sqrt(of_network.value() + client_.squared_norm_of_tables());
  const auto [applies, factor] = order_for(norm, job().clip_norm);
  if (!applies && job().nan == model::nan_policy::stop)
    return fail(step_, make_failure(errc::not_finite, "the gradient's norm is {}; {}", kind_of(norm), lower_rates));
  for (std::size_t s = 0; s < client_.servers(); ++s)
    ask<msg::committed>(client_.server(s), server_number(client_.rank(s)),
                        msg::optimizer_step{trace_.next(step_), assigned_.replica, applies, factor},
                        [](const msg::committed&) {});
  for (std::uint32_t part = 1; part < job().parts(); ++part)
    ask_part<msg::committed>(part, msg::optimizer_step{trace_.next(step_), assigned_.replica, applies, factor},
                             [](const msg::committed&) {});
  if (applies) {
    replica_->apply(factor);
  } else {
    replica_->leave_out();
    tally_.add_skipped();
  }
}

void training_loop::step_done() {
  votes_.count({.stop = step_ == schedule_.changes_after || (parts_ && parts_->stops_after == step_)});
  const bool goes_on = !votes_.stops() && !votes_.saves() && schedule_.goes_on_after(step_);
  if (replica_->open_passes() > 0 && !goes_on) take_losses(true);
  if (is_over(phase_)) return;
  trace_.step_ends(step_ + 1);
  if (assigned_.replica == 0) {
    if (auto where = tally_.tell_progress(epoch_tally::clock::now())) {
      where->head = trace_.next(step_);
      send_report(*where);
    }
  }
  if (schedule_.completes_epoch(step_)) report_epoch();
  if (evaluates_now()) return begin_evaluation();
  save_or_go_on();
}

/// Fails with the first NaN or Inf found in the steps up to `last_step`. Returns false if this trainer has failed.
bool training_loop::judge(std::uint64_t last_step) {
  if (const auto found = replica_->judge(last_step)) fail(found->step, make_failure(errc::not_finite, found->words()));
  return !is_over(phase_);
}

}  // namespace troupe::actors
