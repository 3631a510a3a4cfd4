// A trainer with a part of a network: it leads the other parts of its replica through steps, evaluations and
// checkpoints, or follows (`part_follower`).

#include <utility>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/part_state.hpp"
#include "actors/trainer.hpp"
#include "model/micro_batch.hpp"

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

/// The actor of a rank of this replica; null if there is none.
msg::part_actor trainer_state::part_at(std::uint32_t rank) const {
  return rank < all_.of_rank.size() ? caf::actor_cast<msg::part_actor>(all_.of_rank[rank]) : msg::part_actor();
}

caf::error trainer_state::lead() {
  for (std::uint32_t part = 1; part < job_.parts(); ++part) {
    parts_->others.push_back(part_at(rank_ + part));
    if (!parts_->others.back())
      return make_failure(errc::wrong_context, "trainer {} of the {} that have parts of the network is not in this run",
                          rank_ + part, job_.parts());
  }
  parts_->passes.emplace(
      place_of_part(job_, 0), *replica_, *parts_->slices, trace,
      stage_passes::receivers{
          .forward = [this](const auto& batch, const dense_replica::part& part) { send_forward(batch, part); },
          .backward = {},
          .loss = {},
          .full =
              [this](std::uint32_t bucket) {
                if (judge(step)) send_bucket(bucket);
              },
          .turns = [](const auto&) {},
          .passed_back = [this](const auto&) { parts_->are_through = true; },
      });
  return {};
}

/// Takes the place of a part after the first.
caf::error trainer_state::follow(msg::train& order) {
  const stage_place at = place_of_part(job_, rank_ % job_.parts());
  part_follower::counterparts peers{
      .before = part_at(rank_ - at.ranks_from_input()),
      .after = at.is_last() ? msg::part_actor() : part_at(rank_ + at.slice.slices),
      .slices = {},
      .rank = rank_,
      .group = peers_.group,
      .group_number = peers_.group_number,
      .fail = [this](std::uint64_t at_step, const caf::error& cause) { fail(at_step, cause); },
      .done =
          [this](std::uint64_t steps, msg::message_id asked) {
            enter(trainer_phase::done);
            promise_.deliver(msg::trained{.head = trace.next(steps, asked), .steps = steps});
          }};
  bool has_all = peers.before && (at.is_last() || peers.after);
  for (std::uint32_t slice = 0; slice < at.slice.slices; ++slice) {
    const bool is_mine = slice == at.slice.slice;
    peers.slices.push_back(is_mine ? msg::part_actor() : part_at(rank_ - at.slice.slice + slice));
    has_all = has_all && (is_mine || peers.slices.back());
  }
  if (!has_all)
    return make_failure(errc::wrong_context, "the parts beside part {} of the network are not in this run", at.part());
  auto start = start_of_part(job_, *data_, order.from, at.part());
  if (!start) return start.error();
  step = order.from.steps_done;
  follower_ = std::make_unique<part_follower>(self_, trace, job_, data_->spec(), at, replica_number_, std::move(peers));
  auto error = follower_->start(start->parameters, start->buffers, start->saved, step);
  for (const auto& one : std::exchange(early_, {}))
    if (!error) one();
  return error;
}

// -- a step -------------------------------------------------------------------

/// Gives the other slices of this stage its share of a sum.
void trainer_state::give_share(std::uint64_t number, const msg::tensor& share) {
  for (std::uint32_t slice = 1; slice < job_.tensor_parallel; ++slice)
    self_->send(parts_->others[slice - 1], msg::partial_sum{trace.next(step), rank_, number, share});
}

/// Sends the step's micro-batches through the parts, in place of its own passes; `passed_through_parts` goes on.
void trainer_state::pass_through_parts() {
  ++waiting_;
  if (!has_gradient_) {
    tally_.add_absent();
    // To the other slices of this stage, and to the next one.
    for (std::size_t i = 0; i < std::min<std::size_t>(job_.tensor_parallel, parts_->others.size()); ++i)
      self_->send(parts_->others[i], activation_of(step));
    for (std::uint32_t i = 0; ends_update() && i < replica_->buckets(); ++i) send_bucket(i);
    return passed_through_parts();
  }
  const model::batch& samples = *computed_.samples;
  network_input& input = client_.input_of(step);
  if (auto error = pool_input(computed_, input)) return fail(step, error);
  const bool has_tables = client_.servers() > 0;
  const auto count = static_cast<std::uint32_t>(model::micro_batches_with_samples(samples.size, job_.micro_batches));
  parts_->passes->begin({.step = step, .size = samples.size, .key = pass_key(step), .wants_grad_input = has_tables},
                        count, ends_update());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto part = model::micro_batch_of(samples.size, job_.micro_batches, i);
    parts_->passes->add_input(
        i, input.data() + part.first * network_->in_features(),
        {samples.classes.empty() ? nullptr : samples.classes.data() + part.first,
         samples.values.empty() ? nullptr : samples.values.data() + part.first * data_->spec().outputs});
    send_to_slices(input, computed_.samples, part, i, true);
  }
  advance_passes();
}

/// Gives the other slices of its stage a copy of the network's input, which it uses again before they have ended.
void trainer_state::send_to_slices(const network_input& input, const std::shared_ptr<const model::batch>& of,
                                   model::micro_batch samples, std::uint32_t number, bool trains) {
  if (job_.tensor_parallel == 1) return;
  const std::size_t width = network_->in_features();
  msg::tensor_buffer copy(samples.size, width);
  std::copy_n(input.data() + samples.first * width, copy.size(), copy.data());
  const msg::tensor numbers = std::move(copy).freeze();
  for (std::uint32_t slice = 1; slice < job_.tensor_parallel; ++slice)
    self_->send(parts_->others[slice - 1], activation_of(step, of, samples, number, numbers, trains));
}

/// What a step's activations have in common; of a batch of no samples it is all.
msg::activation trainer_state::activation_of(std::uint64_t of_step) {
  return {.head = trace.next(of_step),
          .rank = rank_,
          .update = schedule_.update(of_step),
          .ends_update = schedule_.ends_update(of_step)};
}

/// Of samples of a batch; those of an evaluation have no targets.
msg::activation trainer_state::activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& whole,
                                             model::micro_batch samples, std::uint32_t number, msg::tensor numbers,
                                             bool trains) {
  msg::activation made = activation_of(of_step);
  made.micro_batch = number;
  made.trains = trains;
  made.batch_size = whole->size;
  made.numbers = std::move(numbers);
  if (!trains) {
    made.update = 0;
    made.ends_update = false;
    return made;
  }
  made.classes = targets_of(whole, whole->classes, samples, 1);
  made.values = targets_of(whole, whole->values, samples, data_->spec().outputs);
  return made;
}

/// To the next stage.
void trainer_state::send_forward(const stage_passes::pass& batch, const dense_replica::part& passed) {
  const msg::part_actor& next = parts_->others[job_.tensor_parallel - 1];
  if (batch.size == 0) return self_->send(next, activation_of(batch.step));
  const auto& whole = job_.streams() ? parts_->batches.at(batch.step) : computed_.samples;
  self_->send(next, activation_of(batch.step, whole, passed.samples, static_cast<std::uint32_t>(passed.number),
                                  replica_->outputs_of(passed), true));
}

/// Passes what has come, unless a pass waits, which sees it when it goes on.
void trainer_state::advance_passes() {
  if (parts_->slices->is_waiting()) return;
  parts_->slices->run(step, [this] {
    const bool are_through = parts_->passes->advance();
    if (!job_.streams()) parts_->are_through = are_through;
  });
  after_passes();
}

/// Goes on if its own part's passes have ended; not as their work, which would take the next step in.
void trainer_state::after_passes() {
  if (parts_->slices->is_waiting() || is_over(phase_)) return;
  if (std::exchange(parts_->are_through, false)) {
    const std::size_t size = computed_.samples->size;
    parts_->batches.erase(step);
    if (size == 0)
      tally_.add_absent();
    else if (take_step_loss(step, size, parts_->passes->loss()))
      judge(step);
    if (!is_over(phase_)) passed_through_parts();
  } else if (parts_->evaluated) {
    const dense_replica::part passed = *std::exchange(parts_->evaluated, std::nullopt);
    if (!judge(step)) return;
    if (job_.pipeline == 1) return has_outputs(passed.kept->outputs());
    self_->send(parts_->others[job_.tensor_parallel - 1],
                activation_of(step, tested_.samples, passed.samples, 0, replica_->outputs_of(passed), false));
  }
}

/// The micro-batches are back, or there are none: their gradient goes to the servers, and the next rows are asked for.
void trainer_state::passed_through_parts() {
  send_gradients();
  if (is_over(phase_)) return;
  if (clips_or_skips() && ends_update()) ask_for_norms();
  look_up_through(forwards_through(step + 1));
  prepare_next();
  arrived();
}

void trainer_state::ask_parts_for_norms() {
  if (!parts_) return;
  parts_->squared_norm = {};
  for (std::uint32_t part = 1; part < job_.parts(); ++part) {
    ++waiting_;
    ask<msg::squared_norm>(
        parts_->others[part - 1], number_of_part(part), msg::gradient_norm{trace.next(step), replica_number_},
        [this, part](const msg::squared_norm& share) {
          const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
          if (!sum)
            return fail(step, make_failure(errc::shape_mismatch, "a norm of trainer {} that is no sum", rank_ + part));
          parts_->squared_norm.merge(*sum);
          arrived();
        });
  }
}

// -- between steps ------------------------------------------------------------

void trainer_state::evaluate_through_parts(const model::batch& samples) {
  ++waiting_;
  // Its own ones, or those that come back from the next stage, and those of the other slices.
  parts_->missing_outputs = job_.tensor_parallel;
  send_to_slices(test_input_, tested_.samples, {0, samples.size}, 0, false);
  parts_->slices->run(step, [this, size = samples.size] {
    parts_->evaluated = replica_->evaluate(step, size, test_input_.data(), job_.pipeline == 1);
  });
  after_passes();
}

/// Takes outputs for the current test rows; null: those of another slice, which are the same.
void trainer_state::has_outputs(const float* outputs) {
  if (outputs != nullptr) tests_.score(*tested_.samples, outputs);
  if (--parts_->missing_outputs > 0) return;
  evaluate_next();
  if (!is_over(phase_)) arrived();
}

/// Calls `then` with the states of all parts after this step in `parts_->states`. `ends`: the parts end.
void trainer_state::gather_states(bool ends, std::function<void()> then) {
  parts_->states.assign(job_.parts(), {});
  parts_->states.front() = replica_->state();
  parts_->pass_seconds = parts_->passes->pass_seconds();
  const auto missing = std::make_shared<std::size_t>(parts_->others.size());
  for (std::uint32_t part = 1; part < job_.parts(); ++part) {
    ++waiting_;
    ask<msg::part_state>(parts_->others[part - 1], number_of_part(part), msg::part_query{trace.next(step), ends},
                         [this, part, missing, then](msg::part_state& state) {
                           parts_->states[part] = std::move(state.numbers);
                           parts_->pass_seconds += state.pass_seconds;
                           --waiting_;
                           if (--*missing > 0) return;
                           then();
                           advance();
                         });
  }
}

std::uint32_t trainer_state::number_of_part(std::uint32_t part) const { return trainer_number(rank_ + part, servers_); }

// -- messages of other parts ------------------------------------------------------

caf::error trainer_state::refuse_part_message() const {
  return make_failure(errc::wrong_context, "a message of another part of the network for {}, which expects none", name);
}

/// Whether the current message may come from that trainer, if it is of another process.
bool trainer_state::comes_from(std::uint32_t rank) const {
  if (rank >= all_.senders.size()) return false;
  const caf::actor_addr& known = all_.senders[rank];
  return known == nullptr || known == self_->current_sender();
}

/// Keeps what comes before the order to train, as far as others may be ahead. Returns false if this is too much.
bool trainer_state::comes_early(std::function<void()> handle_it) {
  if (data_ || early_.size() >= model::micro_batches_max) return false;
  early_.push_back(std::move(handle_it));
  return true;
}

void trainer_state::handle(msg::activation& input) {
  if (!comes_from(input.rank)) return fail(step, refuse_part_message());
  if (comes_early([this, input]() mutable { follower_->take(std::move(input)); })) return;
  if (!follower_) return fail(step, refuse_part_message());
  step = input.head.step;
  follower_->take(std::move(input));
}

void trainer_state::handle(msg::partial_sum& share) {
  if (!comes_from(share.rank)) return fail(step, refuse_part_message());
  if (comes_early([this, share]() mutable { follower_->take(std::move(share)); })) return;
  if (follower_) return follower_->take(std::move(share));
  if (is_over(phase_)) return;
  const std::uint32_t slice = share.rank - rank_;
  if (!parts_ || slice >= job_.tensor_parallel) return fail(step, refuse_part_message());
  if (auto error = parts_->slices->take(slice, std::move(share))) return fail(step, error);
  after_passes();
}

void trainer_state::handle(msg::activation_gradient& grad) {
  if (!comes_from(rank_ + job_.tensor_parallel)) return fail(step, refuse_part_message());
  if (follower_) return follower_->take(std::move(grad));
  if (is_over(phase_)) return;
  if (!parts_) return fail(step, refuse_part_message());
  const bool is_of_step = phase_ == trainer_phase::reducing && grad.head.step == step;
  if (auto error = parts_->passes->take(std::move(grad), is_of_step)) return fail(step, error);
  if (phase_ == trainer_phase::reducing) advance_passes();
}

void trainer_state::handle(msg::part_outputs& outputs) {
  if (!comes_from(outputs.rank)) return fail(step, refuse_part_message());
  if (follower_ && outputs.rank == rank_ + job_.tensor_parallel) return follower_->take(std::move(outputs));
  if (is_over(phase_)) return;
  const std::uint32_t distance = outputs.rank - rank_;  // to another slice of this stage, or to the next stage
  if (!parts_ || phase_ != trainer_phase::evaluating || parts_->missing_outputs == 0 || distance == 0 ||
      distance > job_.tensor_parallel)
    return fail(step, refuse_part_message());
  const std::span<const float> numbers = outputs.numbers.as<float>();
  if (outputs.numbers.type != msg::dtype::f32 || numbers.size() != tested_.samples->size * data_->spec().outputs)
    return fail(step, make_failure(errc::shape_mismatch, "{} outputs for {} test rows of {}", numbers.size(),
                                   tested_.samples->size, data_->spec().outputs));
  has_outputs(distance == job_.tensor_parallel ? numbers.data() : nullptr);
}

/// Whether the current message may come from the leader of this replica. Before the order to train this trainer does
/// not know which that is.
bool trainer_state::comes_from_leader() const {
  return data_ ? comes_from(rank_ - rank_ % job_.parts()) : early_.size() < model::micro_batches_max;
}

template <class Answer, class Query>
caf::result<Answer> trainer_state::ask_follower(const Query& query) {
  if ((data_ && !follower_) || !comes_from_leader()) return refuse_part_message();
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

caf::result<msg::part_state> trainer_state::handle(const msg::part_query& query) {
  return ask_follower<msg::part_state>(query);
}

caf::result<msg::squared_norm> trainer_state::handle(const msg::gradient_norm& query) {
  return ask_follower<msg::squared_norm>(query);
}

caf::result<msg::committed> trainer_state::handle(const msg::optimizer_step& order) {
  if (!follower_ || !comes_from_leader()) return refuse_part_message();
  return follower_->answer(order);
}

}  // namespace troupe::actors
