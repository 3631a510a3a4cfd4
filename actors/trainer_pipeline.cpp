// A trainer in a pipeline: it leads the stages of its replica through steps, evaluations and checkpoints, or has one of
// them (`stage_follower`).

#include <utility>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/stage_state.hpp"
#include "actors/trainer.hpp"
#include "model/micro_batch.hpp"
#include "model/random.hpp"

namespace troupe::actors {

namespace {

/// Returns some of a batch's targets without a copy: of each sample `width` numbers.
template <class Number>
msg::tensor targets_of(const std::shared_ptr<const model::batch>& whole, const std::vector<Number>& all,
                       model::micro_batch samples, std::size_t width) {
  if (all.empty()) return {};
  return {msg::dtype_of<Number>(), samples.size, width,
          msg::blob(whole, all.data() + samples.first * width, samples.size * width * sizeof(Number))};
}

}  // namespace

// -- set-up -------------------------------------------------------------------

/// The actor of a stage of this trainer's replica, counted from its own.
msg::stage_actor trainer_state::stage_at(std::int32_t distance) const {
  const std::size_t rank = member_ + static_cast<std::size_t>(distance);
  return rank < all_.of_rank.size() ? caf::actor_cast<msg::stage_actor>(all_.of_rank[rank]) : msg::stage_actor();
}

caf::error trainer_state::lead() {
  const stage_place at{0, job_.pipeline, job_.schedule};
  stages_.emplace();
  for (std::uint32_t i = 1; i < job_.pipeline; ++i) {
    stages_->others.push_back(stage_at(static_cast<std::int32_t>(i)));
    if (!stages_->others.back())
      return make_failure(errc::wrong_context, "stage {} of --pipeline {} is not in this run", i, job_.pipeline);
  }
  stages_->passes.emplace(at, *replica_, trace,
                          stage_passes::receivers{
                              .forward = [this](const dense_replica::part& part) { send_activation(part); },
                              .backward = {},
                              .loss = {},
                              .full =
                                  [this](std::uint32_t bucket) {
                                    if (judge(step)) send_bucket(bucket);
                                  },
                          });
  return {};
}

/// Takes the place of a stage after the first.
caf::error trainer_state::follow(msg::train& order) {
  const stage_place at{member_ % job_.pipeline, job_.pipeline, job_.schedule};
  stage_follower::counterparts peers{
      .before = stage_at(-1),
      .after = at.is_last() ? msg::stage_actor() : stage_at(1),
      .rank_before = member_ - 1,
      .rank = member_,
      .group = peers_.group,
      .group_number = peers_.group_number,
      .fail = [this](std::uint64_t at_step, const caf::error& cause) { fail(at_step, cause); },
      .done =
          [this](std::uint64_t steps, msg::message_id asked) {
            enter(trainer_phase::done);
            promise_.deliver(msg::trained{.head = trace.next(steps, asked), .steps = steps});
          }};
  if (!peers.before || (!at.is_last() && !peers.after))
    return make_failure(errc::wrong_context, "the stages beside stage {} are not in this run", at.stage);
  auto start = start_of_stage(job_, *data_, order.from, at.stage);
  if (!start) return start.error();
  step = order.from.steps_done;
  follower_ = std::make_unique<stage_follower>(self_, trace, job_, data_->spec(), at, rank_, std::move(peers));
  auto error = follower_->start(start->parameters, start->buffers, start->saved, step);
  for (const auto& one : std::exchange(early_, {}))
    if (!error) one();
  return error;
}

// -- a step -------------------------------------------------------------------

/// Sends the step's micro-batches through the stages, in place of its own passes; `passed_through_stages` goes on.
void trainer_state::pass_through_stages() {
  ++waiting_;
  if (!has_gradient_) {
    tally_.add_absent();
    self_->send(
        stages_->others.front(),
        msg::activation{
            .head = trace.next(step), .rank = member_, .update = schedule_.update(step), .ends_update = ends_update()});
    for (std::uint32_t i = 0; ends_update() && i < replica_->buckets(); ++i) send_bucket(i);
    return passed_through_stages();
  }
  const model::batch& samples = *computed_.samples;
  network_input& input = client_.input_of(step);
  if (auto error = pool_input(samples, input)) return fail(step, error);
  const bool has_tables = client_.servers() > 0;
  const auto count = static_cast<std::uint32_t>(model::micro_batches_with_samples(samples.size, job_.micro_batches));
  stages_->passes->begin({.step = step,
                          .size = samples.size,
                          .key = model::random_key(job_.seed, model::random_stream::network_passes, step, rank_),
                          .wants_grad_input = has_tables},
                         count, ends_update());
  for (std::uint32_t i = 0; i < count; ++i)
    stages_->passes->add_input(
        i, input.data() + model::micro_batch_of(samples.size, job_.micro_batches, i).first * network_->in_features(),
        {});
  advance_stages();
}

void trainer_state::send_activation(const dense_replica::part& passed) {
  const auto& samples = computed_.samples;
  msg::activation made{trace.next(step), member_, static_cast<std::uint32_t>(passed.number)};
  made.batch_size = samples->size;
  made.update = schedule_.update(step);
  made.ends_update = ends_update();
  made.numbers = replica_->outputs_of(passed);
  made.classes = targets_of(samples, samples->classes, passed.samples, 1);
  made.values = targets_of(samples, samples->values, passed.samples, data_->spec().outputs);
  self_->send(stages_->others.front(), std::move(made));
}

void trainer_state::advance_stages() {
  if (!stages_->passes->advance() || is_over(phase_)) return;
  if (take_step_loss(step, computed_.samples->size, stages_->passes->loss())) judge(step);
  if (!is_over(phase_)) passed_through_stages();
}

/// The micro-batches are back, or there are none: their gradient goes to the servers, and the next rows are asked for.
void trainer_state::passed_through_stages() {
  send_gradients();
  if (is_over(phase_)) return;
  if (clips_or_skips() && ends_update()) ask_for_norms();
  look_up_through(step + 1);
  prepare_next();
  arrived();
}

void trainer_state::ask_stages_for_norms() {
  if (!stages_) return;
  stages_->squared_norm = {};
  for (std::uint32_t i = 0; i < stages_->others.size(); ++i) {
    ++waiting_;
    ask<msg::squared_norm>(
        stages_->others[i], number_of_stage(i + 1), msg::gradient_norm{trace.next(step), rank_},
        [this, i](const msg::squared_norm& share) {
          const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
          if (!sum) return fail(step, make_failure(errc::shape_mismatch, "a norm of stage {} that is no sum", i + 1));
          stages_->squared_norm.merge(*sum);
          arrived();
        });
  }
}

// -- between steps ------------------------------------------------------------

void trainer_state::evaluate_through_stages(const model::batch& samples) {
  ++waiting_;
  const auto passed = replica_->evaluate(step, samples.size, test_input_.data(), false);
  msg::activation made{trace.next(step), member_};
  made.trains = false;
  made.batch_size = samples.size;
  made.numbers = replica_->outputs_of(passed);
  self_->send(stages_->others.front(), std::move(made));
}

/// Calls `then` with the states of all stages after this step in `stages_->states`. `ends`: the stages end.
void trainer_state::gather_states(bool ends, std::function<void()> then) {
  stages_->states.assign(job_.pipeline, {});
  stages_->states.front() = replica_->state();
  stages_->pass_seconds = stages_->passes->pass_seconds();
  const auto missing = std::make_shared<std::size_t>(stages_->others.size());
  for (std::uint32_t i = 0; i < stages_->others.size(); ++i) {
    ++waiting_;
    ask<msg::stage_state>(stages_->others[i], number_of_stage(i + 1), msg::stage_query{trace.next(step), ends},
                          [this, i, missing, then](msg::stage_state& state) {
                            stages_->states[i + 1] = std::move(state.numbers);
                            stages_->pass_seconds += state.pass_seconds;
                            --waiting_;
                            if (--*missing > 0) return;
                            then();
                            advance();
                          });
  }
}

std::uint32_t trainer_state::number_of_stage(std::uint32_t stage) const {
  return trainer_number(member_ + stage, servers_);
}

// -- messages of stages -------------------------------------------------------

caf::error trainer_state::refuse_stage_message() const {
  return make_failure(errc::wrong_context, "a message of a pipeline for {}, which has no such stage", name);
}

/// Whether the current message may come from that trainer, if it is of another process.
bool trainer_state::comes_from(std::uint32_t rank) const {
  if (rank >= all_.senders.size()) return false;
  const caf::actor_addr& known = all_.senders[rank];
  return known == nullptr || known == self_->current_sender();
}

void trainer_state::handle(msg::activation& input) {
  if (!data_ && comes_from(member_ - 1) && early_.size() < model::micro_batches_max)
    return early_.push_back([this, input = std::move(input)]() mutable { follower_->take(std::move(input)); });
  if (!follower_ || !comes_from(member_ - 1)) return fail(step, refuse_stage_message());
  step = input.head.step;
  follower_->take(std::move(input));
}

void trainer_state::handle(msg::activation_gradient& grad) {
  if (!comes_from(member_ + 1)) return fail(step, refuse_stage_message());
  if (follower_) return follower_->take(std::move(grad));
  if (is_over(phase_)) return;
  if (!stages_ || phase_ != trainer_phase::reducing || grad.head.step != step ||
      !stages_->passes->lacks_gradient(grad.micro_batch))
    return fail(step, refuse_stage_message());
  const auto size = model::micro_batch_of(computed_.samples->size, job_.micro_batches, grad.micro_batch).size;
  if (grad.numbers.type != msg::dtype::f32 || grad.numbers.rows != size ||
      grad.numbers.cols != network_->out_features() || !grad.numbers.consistent())
    return fail(step,
                make_failure(errc::shape_mismatch, "micro-batch {}: a gradient of {} x {} for outputs of {} x {}",
                             grad.micro_batch, grad.numbers.rows, grad.numbers.cols, size, network_->out_features()));
  stages_->passes->add_gradient(grad.micro_batch, std::move(grad.numbers), grad.loss);
  advance_stages();
}

void trainer_state::handle(msg::stage_outputs& outputs) {
  if (!comes_from(member_ + 1)) return fail(step, refuse_stage_message());
  if (follower_) return follower_->take(std::move(outputs));
  if (is_over(phase_)) return;
  if (!stages_ || phase_ != trainer_phase::evaluating) return fail(step, refuse_stage_message());
  const model::batch& samples = *tested_.samples;
  const std::span<const float> numbers = outputs.numbers.as<float>();
  if (outputs.numbers.type != msg::dtype::f32 || numbers.size() != samples.size * data_->spec().outputs)
    return fail(step, make_failure(errc::shape_mismatch, "{} outputs for {} test rows of {}", numbers.size(),
                                   samples.size, data_->spec().outputs));
  tests_.score(samples, numbers.data());
  evaluate_next();
  if (!is_over(phase_)) arrived();
}

/// Whether the current message may come from the first stage of this replica. Before the order to train this trainer
/// does not know which that is.
bool trainer_state::comes_from_leader() const {
  return data_ ? comes_from(member_ - member_ % job_.pipeline) : early_.size() < model::micro_batches_max;
}

template <class Answer, class Query>
caf::result<Answer> trainer_state::ask_follower(const Query& query) {
  if ((data_ && !follower_) || !comes_from_leader()) return refuse_stage_message();
  auto promise = self_->make_response_promise<Answer>();
  if (follower_)
    follower_->answer(query, promise);
  else  // not within the order to train, which may be answered with it
    early_.push_back([this, query, promise] {
      run_in(caf::strong_actor_ptr(self_->ctrl()), [this, query, promise] {
        const actor_trace::turn as_turn(trace, step);
        follower_->answer(query, promise);
      });
    });
  return promise;
}

caf::result<msg::stage_state> trainer_state::handle(const msg::stage_query& query) {
  return ask_follower<msg::stage_state>(query);
}

caf::result<msg::squared_norm> trainer_state::handle(const msg::gradient_norm& query) {
  return ask_follower<msg::squared_norm>(query);
}

caf::result<msg::committed> trainer_state::handle(const msg::optimizer_step& order) {
  if (!follower_ || !comes_from_leader()) return refuse_stage_message();
  return follower_->answer(order);
}

}  // namespace troupe::actors
