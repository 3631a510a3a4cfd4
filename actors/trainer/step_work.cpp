#include "actors/trainer/step_work.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "actors/common/failure.hpp"
#include "actors/common/faults.hpp"
#include "actors/trainer/job_failure.hpp"
#include "actors/trainer/part_state.hpp"
#include "actors/trainer/replica_options.hpp"
#include "base/error.hpp"
#include "base/exception_text.hpp"
#include "model/random.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

step_work::step_work(const trainer_context& by, const trainer_assignment& what, std::function<void()> resume)
    : actor(by),
      trace(by.trace),
      step(by.step),
      assigned(what),
      advance(std::move(resume)),
      group(by, what.group, what.group_number, what.replica),
      yield(by.self, trace, step) {}

void step_work::enter(trainer_phase next) {
  TROUPE_ASSERT(may_follow(phase, next));
  phase = next;
}

void step_work::fail(std::uint64_t at_step, const caf::error& cause) {
  // Lookups may be pending when a run is stopped; their answers are not needed.
  if (is_over()) return;
  enter(trainer_phase::failed);
  fail_job(actor, at_step, cause);
}

bool step_work::check_finite(std::uint64_t last_step) {
  if (const auto found = replica->check_finite(last_step))
    fail(found->step, make_failure(errc::not_finite, found->description()));
  return !is_over();
}

void step_work::after_others(std::function<void()> what) {
  ++waiting;
  yield.to_woken([what = std::move(what), this] {
    what();
    arrived();
  });
}

// -- set-up and lookups --------------------------------------------------------

caf::error step_work::make_replica(const msg::trainer_position& from, kernels::device& device, nn::slice_sums* slices) {
  const auto text = [&] { return fmt::format("the network's {} parameters", network.parameter_count()); };
  return with_memory_for(text, [&]() -> caf::error {
    const std::size_t inputs = model::lookups_ahead(job().staleness) + 3;
    auto options = replica_options(job(), spec(), model::place_of_part(job(), 0), slices);
    options.grad_input_name = "the gradient of the tables' pooled rows";
    options.passes_max = 16 * inputs;  // ragged batches have many sizes
    replica.emplace(network, model::loss_of(job().loss, spec().outputs), device, options);
    auto part = start_of_part(job(), *assigned.data, from, 0);
    if (!part) return part.error();
    replica->start(part->parameters, part->buffers);
    if (!part->saved.empty() && !replica->restore(part->saved))
      return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
    if (trace.is_on()) replica->time_work();
    return {};
  });
}

caf::expected<sparse_client::context> step_work::prepare(std::uint64_t of_step, result<model::batch>&& samples) const {
  if (!samples)
    return make_failure(samples.error().kind == fault_kind::input ? errc::bad_input : errc::exception,
                        samples.error().message);
  const auto shared = std::make_shared<model::batch>(std::move(*samples));
  if (auto fault = model::check_batch(spec(), *shared)) return make_failure(errc::bad_index, *fault);
  try {
    const troupe::shape dense(shared->size, spec().dense_features);
    if (shared->size > 0) nn::check_ids(*network.module, {dense, shared->dense.data()});
  } catch (const error& refused) {
    return make_failure(errc::bad_input, refused.what());
  }
  context made = client.prepare(of_step, shared);
  client.free_copied(made, *shared);
  return made;
}

void step_work::prepare_next() {
  const auto next = coming->lacking();
  if (!next || is_over()) return;
  const actor_trace::range working(trace, trace::range_name::prepare_batch, *next, trace.latest());
  if (auto error = coming->prepare()) fail(*next, error);
}

bool step_work::look_up_next(std::uint32_t staleness) {
  prepare_next();
  if (is_over()) return false;
  context& next = coming->look_up_next();
  look_up(next, staleness, client.input_of(next.step));
  return true;
}

void step_work::look_up_through(std::uint64_t last) {
  last = std::min(last, schedule.total_steps);
  while (coming->looked_up() < last)
    if (!look_up_next(job().staleness)) return;
}

void step_work::look_up(context& wanted, std::uint32_t staleness, network_input& into) {
  client.offer(wanted, replica->compute(), into);
  for (std::size_t s = 0; s < wanted.lookups.size(); ++s)
    ask<msg::rows>(client.server(s), server_number(client.rank(s)),
                   client.ask(wanted, s, trace.next(wanted.step), staleness), [this, &wanted, s](msg::rows& answer) {
                     sparse_client::take(wanted, s, std::move(answer));
                     advance();
                   });
}

// -- a step ---------------------------------------------------------------------

void step_work::begin_step() {
  step = coming->first().step;
  trace.step_begins(step);
}

void step_work::take_batch() {
  now.rows = coming->take_first();
  now.begun = step;
  tally.add_rows(now.rows.answers);
  look_up_through(step + model::lookups_ahead(job().staleness));

  if (schedule.begins_update(step)) replica->open(schedule.update(step));
  votes.vote_to_save(ends_update() && checkpoint.is_due_by_time());
  now.has_gradient = now.rows.samples->size > 0;
}

caf::error step_work::pool_input(context& of, network_input& input) {
  input.resize(replica->compute(), of.samples->size, replica->in_features());
  for (kernels::stream_timer* one : replica->timers()) one->set_step(step);
  if (auto error = client.pool(of, replica->copies(), input, &replica->copy_timer())) return error;
  if (job().nan == model::nan_policy::stop)
    if (auto error = client.check_rows(of)) return error;
  if (replica->is_on_host()) sparse_client::free_answers(of);
  return {};
}

std::uint64_t step_work::pass_key(std::uint64_t of_step) const {
  return model::random_key(job().seed, model::random_stream::network_passes, of_step, assigned.replica);
}

bool step_work::take_step_loss(std::uint64_t of_step, std::size_t size, double loss) {
  tally.add_loss(loss, size);
  if (std::isfinite(loss)) return true;
  if (job().nan == model::nan_policy::skip)
    now.has_gradient = false;
  else
    fail(of_step, make_failure(errc::not_finite, replica->loss_text(loss)));
  return false;
}

void step_work::send_gradients() {
  std::vector<std::vector<msg::bag_gradient>> grads(client.servers());
  if (now.has_gradient && !grads.empty()) {
    const auto& of_input = replica->grad_input();
    if (auto* wrong = faults()) wrong->gradient(assigned.replica, step, {of_input.host(), of_input.size()});
    grads = client.gradients(now.rows, of_input, replica->passed());
    if (replica->is_on_host()) replica->free_grad_input();
    if (job().nan == model::nan_policy::stop)
      if (auto error = client.check_gradients(now.rows, grads)) return fail(step, error);
  }
  const bool rides = ends_update() && !clips_or_skips();
  const bool keeps = checkpoint.take_keeps();
  for (std::size_t s = 0; s < grads.size(); ++s) {
    msg::gradient message{trace.next(step), assigned.replica, now.has_gradient, rides, std::move(grads[s]), keeps};
    if (auto* wrong = faults()) wrong->signs(assigned.replica, step, message);
    actor.self->send(client.server(s), std::move(message));
  }
}

void step_work::ask_for_norms() {
  client.ask_for_norm();
  for (std::size_t s = 0; s < client.servers(); ++s) {
    ++waiting;
    ask<msg::squared_norm>(client.server(s), server_number(client.rank(s)),
                           msg::gradient_norm{trace.next(step), assigned.replica},
                           [this, s](const msg::squared_norm& share) {
                             if (auto error = client.take_norm(s, share)) return fail(step, error);
                             arrived();
                           });
  }
}

void step_work::send_bucket(std::uint32_t bucket, bool hears_others) {
  const std::uint32_t weight = replica->weight(bucket, assigned.replica);
  msg::tensor share = replica->share(bucket, assigned.replica);
  if (auto* wrong = faults(); wrong != nullptr && wrong->skips_reduce(assigned.replica, step, bucket))
    return replica->give_up(bucket);
  if (job().trainers == 1 && replica->batches() == 1 && hears_others) {
    votes.count(votes.own(), step, now.begun);
    return replica->take(bucket, share);
  }
  ++waiting;
  reduce(bucket, weight, std::move(share), votes.own(), [this, bucket](const msg::reduced& mean) {
    votes.count({mean.stop, mean.save}, step, now.begun);
    replica->take(bucket, mean.grad);
    arrived();
  });
}

bool step_work::is_long(const model::batch& samples) const {
  constexpr std::size_t many_multiplications = std::size_t{1} << 22;  // this takes about as long as waking a thread
  return replica->is_on_host() && samples.size * replica->multiply_adds() >= many_multiplications;
}

}  // namespace troupe::actors
