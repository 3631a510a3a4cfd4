#include "actors/trainer/whole_network.hpp"

#include <span>

#include "actors/common/failure.hpp"
#include "base/exception_text.hpp"

namespace troupe::actors {

whole_network::whole_network(step_work& work) : step_body(work) {
  if (work.network.module->synchronizes() && work.job().trainers > 1) others_.emplace(work.job().trainers);
}

/// Runs the step's passes. They may wait midway if the network needs the other ranks' numbers.
void whole_network::run() {
  if (!others_) return run_step();
  ++work_.waiting;
  others_->begin([this] { run_step(); });
  sync_or_end();
}

/// Until the pass is over, reduces the numbers that it waits for, as one more bucket of the step.
void whole_network::sync_or_end() {
  const std::span<const float> mine = others_->wanted();
  if (mine.empty()) return work_.arrived();
  dense_replica& replica = *work_.replica;
  const std::uint32_t bucket = replica.buckets() + others_->syncs();
  work_.reduce(bucket, 1, replica.as_share(mine), {.stop = work_.votes.own().stop}, [this](const msg::reduced& mean) {
    if (work_.is_over()) return;
    others_->proceed(work_.replica->on_host(mean.grad));
    sync_or_end();
  });
}

void whole_network::run_step() {
  begin_step();
  if (work_.is_over()) return;
  work_.take_batch();
  if (!work_.now.has_gradient)
    join_without_batch();
  else if (auto error = backward_inputs())
    return work_.fail(work_.step, error);
  if (work_.is_over()) return;
  const auto rest = [this] {
    reduce_gradient();
    work_.prepare_next();
  };
  const bool long_rest = work_.now.has_gradient && work_.is_long(*work_.now.rows.samples);
  if (long_rest) work_.after_others(rest);
  work_.send_gradients();
  if (work_.is_over()) return;
  if (work_.clips_or_skips() && work_.ends_update()) work_.ask_for_norms();
  look_up_for(work_.step + 1);
  if (!long_rest) rest();
}

void whole_network::join_without_batch() {
  dense_replica& replica = *work_.replica;
  for (std::uint32_t i = 0; others_ && i < work_.job().micro_batches; ++i) replica.join_idle(*others_);
  settle();
  replica.synchronize();  // instead of waiting for a loss: see `sparse_client::input_of`
  work_.check_finite(work_.step - 1);
  work_.tally.add_absent();
}

/// Runs forward, loss, and backward to the tables' rows. On a device, enqueues the whole backward pass, and then waits.
caf::error whole_network::backward_inputs() {
  if (auto error = begin_pass()) return error;
  if (work_.replica->is_on_host()) {
    take_loss();
    return {};
  }
  backward_parameters();
  const actor_trace::range working(work_.trace, trace::range_name::forward_backward, work_.step);
  await_device(waits_for_loss());
  return {};
}

/// Returns whether the host needs this step's loss, or its rows' gradient, to continue. With consistency async, a
/// server could otherwise report a NaN to other trainers before the trainer that caused it has seen it.
bool whole_network::waits_for_loss() const {
  return work_.clips_or_skips() || work_.job().staleness == model::any_staleness ||
         sparse_client::needs_host(work_.now.rows);
}

caf::error whole_network::begin_pass() {
  const actor_trace::range working(work_.trace, trace::range_name::forward_backward, work_.step, work_.trace.latest());
  network_input& input = work_.client.input_of(work_.step);
  if (auto error = work_.pool_input(work_.now.rows, input)) return error;
  const model::batch& samples = *work_.now.rows.samples;
  const dense_replica::pass pass = pass_of(samples, input.data());
  with_memory_for([&] { return fmt::format("the network's pass of {} samples", samples.size); },
                  [&] { work_.replica->begin_pass(pass); });
  return {};
}

dense_replica::pass whole_network::pass_of(const model::batch& samples, const float* input) {
  const bool has_tables = work_.client.servers() > 0;
  return {.step = work_.step,
          .size = samples.size,
          .input = input,
          .classes = samples.classes,
          .values = samples.values,
          .key = work_.pass_key(work_.step),
          .ranks = others_ ? &*others_ : nullptr,
          .wants_grad_input = has_tables,
          .wants_it_on_host = has_tables && sparse_client::needs_host(work_.now.rows)};
}

/// Waits for the device, and reads the losses that have come: that of the step before and, with `all`, this step's.
/// Without `all`, the host waits until the device has this step's input: the device then has its passes to compute.
void whole_network::take_losses(bool all) {
  dense_replica& replica = *work_.replica;
  {
    const actor_trace::range waiting(work_.trace, trace::range_name::device_wait, work_.step);
    if (all)
      replica.copies().synchronize();
    else
      replica.begun().wait();
  }
  work_.note_device_work();
  while (replica.open_passes() > (all ? 0 : 1) && !work_.is_over()) take_loss();
}

void whole_network::settle() {
  if (work_.replica->open_passes() > 0) take_losses(true);
}

/// Reads the first loss that has not been read, which the host knows now, and decides whether there is a gradient.
void whole_network::take_loss() {
  const auto [of_step, size, loss] = work_.replica->end_pass();
  if (!work_.check_finite(of_step - 1)) return;
  if (work_.take_step_loss(of_step, size, loss))
    work_.check_finite(of_step);
  else if (!work_.is_over())
    work_.replica->poison();
}

/// Sends the gradient's buckets to the group; on the processor, computes them first.
void whole_network::reduce_gradient() {
  if (work_.now.has_gradient && work_.replica->is_on_host()) return backward_parameters();
  if (!work_.ends_update()) return;
  for (std::uint32_t i = 0; i < work_.replica->buckets(); ++i) send_bucket(i);
}

void whole_network::backward_parameters() {
  const actor_trace::range working(work_.trace, trace::range_name::backward_parameters, work_.step);
  work_.replica->backward_parameters(work_.ends_update(), [this](std::uint32_t bucket) {
    if (work_.check_finite(work_.step)) send_bucket(bucket);
  });
}

void whole_network::evaluate(const std::function<void()>& then) {
  rank_evaluation& evaluation = work_.evaluation;
  const std::size_t size = evaluation.samples().size;
  const std::span<const float> outputs = work_.replica->outputs(work_.step, size, evaluation.input().data());
  work_.note_device_work();
  if (!work_.check_finite(work_.step)) return;
  evaluation.score(outputs.data());
  then();
}

}  // namespace troupe::actors
