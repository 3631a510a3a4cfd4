#include "actors/trainer/pipeline_worker.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "actors/common/actor_name.hpp"
#include "actors/common/compute_devices.hpp"
#include "actors/common/failure.hpp"
#include "actors/trainer/job_failure.hpp"
#include "actors/trainer/part_state.hpp"
#include "actors/trainer/replica_options.hpp"
#include "base/assert.hpp"
#include "model/random.hpp"

namespace troupe::actors {

namespace {

bool is_matrix(const msg::tensor& what, std::uint64_t rows, std::uint64_t cols) {
  return what.type == dtype::f32 && what.rows == rows && what.cols == cols && what.consistent();
}

}  // namespace

pipeline_worker::pipeline_worker(trainer_context actor, const trainer_assignment& assigned,
                                 const model::stage_place& at, pipeline_links::neighbours beside)
    : trainer_body(std::move(actor)),
      trace_(actor_.trace),
      step_(actor_.step),
      assigned_(assigned),
      job_(*assigned.job),
      group_(actor_, assigned.group, assigned.group_number, assigned.replica),
      at_(at),
      links_(actor_.self, trace_, actor_.rank, std::move(beside)),
      replica_(model::make_stage(job_, spec(), at.stage), model::loss_of(job_.loss, spec().outputs),
               kernels::host_device(), replica_options(job_, spec(), at, &slices_)),
      passes_(at, replica_, slices_, links_, trace_,
              {.loss = [this](double loss) { take_loss(loss); },
               .full =
                   [this](std::uint32_t bucket) {
                     if (check_finite() && !is_spoilt_) send_bucket(bucket);
                   },
               .turns =
                   [this](std::uint64_t step) {
                     step_ = step;
                     trace_.step_begins(step_);
                   },
               .passed_back = [this] { passed(); }}),
      slices_(at.slice, actor_.rank - at.slice.slice, trace_, [this](std::uint64_t number, const msg::tensor& share) {
        links_.send_beside(msg::partial_sum{.head = {.step = step_}, .number = number, .numbers = share});
      }) {}

/// Starts from this part of the network.
void pipeline_worker::begin(msg::train& order) {
  auto part = start_of_part(job_, *assigned_.data, order.from, at_.part());
  if (!part) return fail(part.error());
  replica_.start(part->parameters, part->buffers);
  if (!part->saved.empty() && !replica_.restore(part->saved))
    return fail(make_failure(errc::shape_mismatch, "the saved dense weights are those of another model"));
  step_ = order.from.steps_done;
}

void pipeline_worker::enter(stage_phase next) {
  TROUPE_ASSERT(may_follow(phase_, next));
  phase_ = next;
}

void pipeline_worker::fail(const caf::error& cause) {
  if (is_over()) return;
  enter(stage_phase::failed);
  fail_job(actor_, step_, cause);
}

/// Fails with the first NaN or Inf found. Returns false if this stage has failed.
bool pipeline_worker::check_finite() {
  if (const auto found = replica_.check_finite(step_)) fail(make_failure(errc::not_finite, found->description()));
  return !is_over();
}

// -- messages from the parts before, beside and after --------------------------------------------------

/// Returns why an activation does not fit the run; it may come from another process.
caf::error pipeline_worker::check(const msg::activation& input) const {
  const msg::tensor& numbers = input.numbers;
  const std::uint64_t rows = numbers.rows;
  if (input.rank != rank_before())
    return make_failure(errc::wrong_context, "an activation of trainer {}, trainer {} is to send them", input.rank,
                        rank_before());
  const bool ends_stream = job_.streams() && input.update == 0 && input.batch_size == 0;
  if (input.trains && (input.micro_batch >= job_.micro_batches || (input.update == 0 && !ends_stream)))
    return make_failure(errc::bad_input, "micro-batch {} of {} in optimizer step {}", input.micro_batch,
                        job_.micro_batches, input.update);
  if (input.batch_size == 0 && input.trains) return {};
  const auto part = model::micro_batch_of(input.batch_size, job_.micro_batches, input.micro_batch);
  if (!is_matrix(numbers, input.trains ? part.size : rows, replica_.in_features()) || rows == 0)
    return make_failure(errc::shape_mismatch,
                        "micro-batch {}: an activation of {} x {}, this stage takes {} samples of {} numbers",
                        input.micro_batch, rows, numbers.cols, input.trains ? part.size : rows, replica_.in_features());
  if (!input.trains) return {};
  const bool has_classes = input.classes.type == dtype::i64 && input.classes.rows == rows && input.classes.cols == 1 &&
                           input.classes.consistent();
  const bool fits =
      job_.loss == model::loss_kind::cross_entropy ? has_classes : is_matrix(input.values, rows, spec().outputs);
  if (!fits) return make_failure(errc::shape_mismatch, "micro-batch {}: targets of another shape", input.micro_batch);
  for (const std::int64_t one : input.classes.as<std::int64_t>())
    if (one < 0 || static_cast<std::uint64_t>(one) >= spec().outputs)
      return make_failure(errc::bad_index, "micro-batch {}: class {} of {}", input.micro_batch, one, spec().outputs);
  return {};
}

void pipeline_worker::take(msg::activation&& input) {
  if (is_over()) return;
  if (auto error = check(input)) return fail(error);
  // The sender is at most one step ahead.
  if (inputs_.size() >= 2 * std::size_t{std::max(job_.micro_batches, job_.steps_together())})
    return fail(make_failure(errc::bad_input, "{} activations that are not passed", inputs_.size()));
  inputs_.push_back(std::move(input));
  proceed();
}

void pipeline_worker::take(msg::activation_gradient&& grad) {
  if (is_over()) return;
  if (auto error = passes_.take(std::move(grad))) return fail(error);
  advance();
  proceed();
}

void pipeline_worker::take(msg::part_outputs&& outputs) {
  if (is_over()) return;
  if (outputs.rank != actor_.rank + job_.tensor_parallel) return fail(refusal());  // the next stage's rank
  links_.send_back(msg::part_outputs{.head = {.step = step_}, .numbers = std::move(outputs.numbers)});
}

void pipeline_worker::take(msg::partial_sum&& share) {
  if (is_over()) return;
  if (auto error = slices_.take(std::move(share))) return fail(error);
  proceed();
}

/// Handles the received activations in order, as far as the current step allows.
void pipeline_worker::proceed() {
  while (!inputs_.empty() && !is_over()) {
    msg::activation& next = inputs_.front();
    if (phase_ == stage_phase::idle && slices_.is_waiting()) break;
    if (job_.streams() && next.trains) {
      if (phase_ != stage_phase::idle && passes_.order().has_ended()) break;  // `next` belongs to the next stream
      msg::activation input = std::move(next);
      inputs_.pop_front();
      take_into_stream(std::move(input));
      continue;
    }
    if (phase_ == stage_phase::idle && next.trains)
      begin_step(next);
    else if (phase_ != stage_phase::idle && !(phase_ == stage_phase::passing && next.trains && next.head.step == step_))
      break;
    msg::activation input = std::move(next);
    inputs_.pop_front();
    if (!input.trains) slices_.run(step_, [this, input] { evaluate(input); });
    if (!input.trains || input.batch_size == 0 || is_over()) continue;
    if (auto error = passes_.add_input(std::move(input))) return fail(error);
    advance();
  }
  answer_queries();
}

// -- a step ------------------------------------------------------------------------------------

void pipeline_worker::begin_step(const msg::activation& first) {
  step_ = first.head.step;
  trace_.step_begins(step_);
  ends_update_ = first.ends_update;
  is_spoilt_ = false;
  if (std::exchange(update_, first.update) != first.update) replica_.open(first.update);
  if (first.batch_size > 0) {
    const auto count = model::micro_batches_with_samples(first.batch_size, job_.micro_batches);
    passes_.begin(batch_of(first), static_cast<std::uint32_t>(count), ends_update_);
    return enter(stage_phase::passing);
  }
  links_.send_on(first, {});
  if (!ends_update_) return trace_.step_ends(step_ + 1);
  enter(stage_phase::reducing);
  for (std::uint32_t i = 0; i < replica_.buckets(); ++i) send_bucket(i);
  if (missing_ == 0) reduced();
}

stage_passes::pass pipeline_worker::batch_of(const msg::activation& input) const {
  const std::uint64_t step = input.head.step;
  return {.step = step,
          .size = input.batch_size,
          .key = model::random_key(job_.seed, model::random_stream::network_passes, step, assigned_.replica),
          .wants_grad_input = at_.is_first() && !spec().tables.empty()};
}

/// Adds a step that may overlap with those before it, or notes that no step follows, before all have been passed back.
void pipeline_worker::take_into_stream(msg::activation&& input) {
  if (phase_ == stage_phase::idle) {
    passes_.begin_stream();
    enter(stage_phase::passing);
  }
  if (input.update == 0) {
    passes_.order().end_stream();
    last_of_stream_ = input.head.step;
  } else if (auto error = passes_.add_batch(batch_of(input), std::move(input))) {
    return fail(error);
  }
  advance();
}

void pipeline_worker::advance() {
  if (slices_.is_waiting()) return;  // the waiting pass handles the inputs when it resumes
  slices_.run(step_, [this] {
    const bool are_through = passes_.advance();
    if (last_of_stream_ && passes_.order().are_all_forward())  // the next stage gets no further batch either
      links_.send_on({.head = {.step = *std::exchange(last_of_stream_, std::nullopt)}}, {});
    if (!are_through || is_over()) return;
    if (!job_.streams())
      passed();
    else if (phase_ == stage_phase::passing)
      enter(stage_phase::idle);
  });
}

/// The last stage knows first that a step is spoilt.
void pipeline_worker::take_loss(double loss) {
  if (std::isfinite(loss)) return;
  if (job_.nan == model::nan_policy::skip) {
    is_spoilt_ = true;
  } else {
    fail(make_failure(errc::not_finite, replica_.loss_text(loss)));
  }
}

/// All micro-batches of the step have been passed back.
void pipeline_worker::passed() {
  if (is_over()) return;
  if (is_spoilt_) replica_.poison();
  if (!ends_update_ && !job_.streams()) return end_step();
  enter(stage_phase::reducing);
  for (std::uint32_t i = 0; is_spoilt_ && i < replica_.buckets(); ++i) send_bucket(i);
  if (missing_ == 0) reduced();
}

void pipeline_worker::send_bucket(std::uint32_t bucket) {
  const std::uint32_t weight = replica_.weight(bucket, assigned_.replica);
  msg::tensor share = replica_.share(bucket, assigned_.replica);
  if (job_.trainers == 1 && replica_.batches() == 1) return replica_.take(bucket, share);
  ++missing_;
  group_.reduce(
      step_, bucket, weight, std::move(share), {},
      [this, bucket](const msg::reduced& mean) {
        replica_.take(bucket, mean.grad);
        if (--missing_ > 0 || phase_ != stage_phase::reducing) return;
        reduced();
        if (phase_ == stage_phase::passing) advance();
        proceed();
      },
      [this](const caf::error& error) { fail(error); });
}

void pipeline_worker::reduced() {
  if (job_.streams()) {
    enter(stage_phase::passing);
    passes_.order().update();
    return trace_.step_ends(step_ + 1);
  }
  if (!clips_or_skips()) return end_step();
  enter(stage_phase::deciding);
}

void pipeline_worker::end_step() {
  enter(stage_phase::idle);
  trace_.step_ends(step_ + 1);
}

void pipeline_worker::evaluate(const msg::activation& input) {
  trace_.progresses();
  const actor_trace::range working(trace_, trace::range_name::evaluate, step_);
  const auto part = replica_.evaluate(step_, input.numbers.rows, input.numbers.as<float>().data(), at_.is_last());
  if (!check_finite()) return;
  if (at_.is_last())
    links_.send_back(msg::part_outputs{.head = {.step = step_}, .numbers = replica_.outputs_of(part)});
  else
    links_.send_on(input, replica_.outputs_of(part));
}

// -- the leader's queries ------------------------------------------------------------------------

void pipeline_worker::answer(const msg::part_query& query, caf::typed_response_promise<msg::part_state> promise) {
  state_query_ = {query, std::move(promise)};
  answer_queries();
}

void pipeline_worker::answer(const msg::gradient_norm& query, caf::typed_response_promise<msg::squared_norm> promise) {
  norm_query_ = {query, std::move(promise)};
  answer_queries();
}

caf::result<msg::committed> pipeline_worker::answer(const msg::optimizer_step& order) {
  if (phase_ != stage_phase::deciding || order.head.step != step_)
    return make_failure(errc::wrong_context, "an optimizer step for step {}, which is not being decided",
                        order.head.step);
  if (order.apply)
    replica_.apply(order.factor);
  else
    replica_.leave_out();
  end_step();
  msg::committed done{trace_.next(step_, msg::id_of(order.head))};
  proceed();
  return done;
}

/// Answers the queries whose step has come.
void pipeline_worker::answer_queries() {
  if (norm_query_ && phase_ == stage_phase::deciding && norm_query_->query.head.step == step_) {
    auto [query, promise] = *std::exchange(norm_query_, std::nullopt);
    model::exact_sum sum = replica_.mean_squared_norm();
    const auto limbs = sum.limbs();
    promise.deliver(msg::squared_norm{trace_.next(step_, msg::id_of(query.head)),
                                      msg::blob::own(std::vector<std::int64_t>(limbs.begin(), limbs.end()))});
  }
  const bool rests = phase_ == stage_phase::idle && inputs_.empty() && !slices_.is_waiting();
  if (!state_query_ || !rests || state_query_->query.head.step > step_) return;
  auto [query, promise] = *std::exchange(state_query_, std::nullopt);
  if (query.ends) replica_.look_at_weights(step_);
  if (!check_finite()) return;
  promise.deliver(
      msg::part_state{trace_.next(step_, msg::id_of(query.head)), replica_.state(), passes_.pass_seconds()});
  if (!query.ends) return;
  enter(stage_phase::done);
  trace_.rests();
  actor_.done({.head = trace_.next(step_, msg::id_of(query.head)), .steps = step_});
}

// -- status --------------------------------------------------------------------------------------

void pipeline_worker::report(msg::actor_status& now) const {
  const auto wait_for = [&](std::string what, std::string on) {
    now.waits.push_back({now.name, std::move(what), step_, std::move(on)});
  };
  now.step = step_;
  switch (phase_) {
    case stage_phase::idle:
      now.phase = "idle";
      break;
    case stage_phase::passing:
      now.phase = "passing";
      if (slices_.is_waiting())
        slices_.report_missing(step_, now);
      else
        passes_.report_lacking(step_, now);
      break;
    case stage_phase::reducing:
      now.phase = "reducing";
      for (std::uint32_t i = 0; i < replica_.buckets(); ++i)
        if (replica_.is_reducing(i)) wait_for(fmt::format("bucket {}", i), "allreduce");
      break;
    case stage_phase::deciding:
      now.phase = "deciding";
      wait_for("the optimizer step", fmt::format("trainer {}", actor_.rank - at_.part()));
      break;
    case stage_phase::done:
      now.phase = "done";
      break;
    case stage_phase::failed:
      break;
  }
  passes_.report_in_flight(job_.micro_batches, now);
}

}  // namespace troupe::actors
