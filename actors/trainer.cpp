#include "actors/trainer.hpp"

#include <chrono>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/own_device.hpp"
#include "actors/part_state.hpp"
#include "actors/traced_system.hpp"

namespace troupe::actors {

void trainer_state::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  name = fmt::format("trainer {}", rank);
  rank_ = rank;
  servers_ = servers;
  trace.start(self_, self_->system(), run, trainer_number(rank, servers), name);
}

/// Ends this actor, and with it the run. Only the first failure counts.
void trainer_state::fail(std::uint64_t at_step, const caf::error& answer) {
  if (std::exchange(is_over_, true)) return;
  const caf::error cause = cause_behind(answer, devices_of(self_->system()).of_trainer(rank_));
  // An invalid row is the data's fault, so the error does not name the trainer that read it.
  if (cause == errc::bad_input) return self_->quit(cause);
  if (protocol::is_secondary(cause))
    self_->quit(make_failure(errc::peer_failed, "{}, step {}: an answer did not come: {}", name, at_step,
                             protocol::describe(cause)));
  else
    self_->quit(failure_of(name, at_step, cause));
}

void trainer_state::end(msg::trained&& result) {
  is_over_ = true;
  const inline_execution::elsewhere there(woken_.get(), self_);
  promise_.deliver(std::move(result));
}

// -- the order to train ---------------------------------------------------------

caf::result<msg::trained> trainer_state::handle(msg::train& order) {
  promise_ = self_->make_response_promise<msg::trained>();
  woken_ = own_execution(self_, devices_of(self_->system()));
  if (auto error = begin(order)) fail(0, error);
  return promise_;
}

/// Opens the data, which must be the master's.
caf::error trainer_state::begin(msg::train& order) {
  if (assigned_) return make_failure(errc::wrong_context, "a second order to train");
  auto job = model::shared_job(order.job);
  if (!job) return make_failure(errc::bad_input, job.error().message);
  const msg::blob row_index = order.row_index.empty() ? msg::blob() : order.row_index.front();
  auto data = model::open_dataset(**job, row_index.as<std::uint64_t>());
  if (!data) return make_failure(errc::bad_input, data.error().message);
  if ((*data)->digest() != order.data_digest)
    return make_failure(errc::bad_input,
                        "--data {}: the rows here are not the master's: their digest is {} here and {} there",
                        (*job)->data, (*data)->digest(), order.data_digest);
  const caf::timespan limit = std::chrono::milliseconds(order.request_timeout_ms);
  assigned_ = {.job = *job,
               .data = std::move(*data),
               .rank = rank_,
               .replica = rank_ / (*job)->parts(),
               .servers = servers_,
               .group = order.group,
               .group_number = order.group_number,
               .reports = order.reports,
               .remote = order.remote,
               .timeout = order.remote ? limit : caf::timespan(caf::infinite)};
  return assigned_->part() == 0 ? lead(order) : follow(order);
}

caf::error trainer_state::lead(msg::train& order) {
  std::vector<msg::part_actor> others;
  for (std::uint32_t part = 1; part < assigned_->job->parts(); ++part) {
    others.push_back(part_at(rank_ + part));
    if (!others.back())
      return make_failure(errc::wrong_context, "trainer {} of the {} that have parts of the network is not in this run",
                          rank_ + part, assigned_->job->parts());
  }
  loop_ = std::make_unique<training_loop>(
      trainer_context{
          .self = self_,
          .name = name,
          .trace = trace,
          .step = step,
          .woken = woken_.get(),
          .fail = [this](std::uint64_t at_step, const caf::error& cause) { fail(at_step, cause); },
          .done = [this](msg::trained&& result) { end(std::move(result)); },
      },
      *assigned_);
  if (auto error = loop_->set_up(order, std::move(others))) return error;
  if (stop_wanted_) loop_->want_stop();
  loop_->start(order.from);
  return {};
}

caf::error trainer_state::follow(msg::train& order) {
  const model::stage_place at = model::place_of_part(*assigned_->job, assigned_->part());
  part_links::neighbours beside{.before = part_at(rank_ - at.ranks_from_input()),
                                .behind = at.is_last() ? msg::part_actor() : part_at(rank_ + at.slice.slices),
                                .slices = {}};
  bool has_all = beside.before && (at.is_last() || beside.behind);
  beside.slices.reserve(at.slice.slices - 1);
  for (std::uint32_t slice = 0; slice < at.slice.slices; ++slice) {
    if (slice == at.slice.slice) continue;
    beside.slices.push_back(part_at(rank_ - at.slice.slice + slice));
    has_all = has_all && beside.slices.back();
  }
  if (!has_all)
    return make_failure(errc::wrong_context, "the parts beside part {} of the network are not in this run", at.part());
  part_follower::counterparts peers{
      .links = part_links(self_, trace, rank_, std::move(beside)),
      .group = assigned_->group,
      .group_number = assigned_->group_number,
      .fail = [this](std::uint64_t at_step, const caf::error& cause) { fail(at_step, cause); },
      .done = [this](std::uint64_t steps,
                     msg::message_id asked) { end({.head = trace.next(steps, asked), .steps = steps}); }};
  auto start = start_of_part(*assigned_->job, *assigned_->data, order.from, at.part());
  if (!start) return start.error();
  step = order.from.steps_done;
  follower_ = std::make_unique<part_follower>(self_, trace, *assigned_->job, assigned_->data->spec(), at,
                                              assigned_->replica, std::move(peers));
  auto error = follower_->start(start->parameters, start->buffers, start->saved, step);
  for (const auto& one : std::exchange(early_, {}))
    if (!error) one();
  return error;
}

// -- messages of other parts ------------------------------------------------------

/// The actor of a rank of this replica; null if there is none.
msg::part_actor trainer_state::part_at(std::uint32_t rank) const {
  return rank < all_.of_rank.size() ? caf::actor_cast<msg::part_actor>(all_.of_rank[rank]) : msg::part_actor();
}

/// Whether the current message may come from that trainer, if it is of another process.
bool trainer_state::comes_from(std::uint32_t rank) const {
  if (rank >= all_.senders.size()) return false;
  const caf::actor_addr& known = all_.senders[rank];
  return known == nullptr || known == self_->current_sender();
}

/// Whether the current message may come from the leader of this replica. Before the order to train this trainer does
/// not know which that is.
bool trainer_state::comes_from_leader() const {
  return assigned_ ? comes_from(assigned_->leader()) : early_.size() < model::micro_batches_max;
}

/// Keeps what comes before the order to train, as far as others may be ahead. Returns false if this is too much.
bool trainer_state::comes_early(std::function<void()> handle_it) {
  if (assigned_ || early_.size() >= model::micro_batches_max) return false;
  early_.push_back(std::move(handle_it));
  return true;
}

void trainer_state::handle(msg::activation& input) {
  if (!comes_from(input.rank)) return refuse_part_message();
  if (comes_early([this, input]() mutable { follower_->take(std::move(input)); })) return;
  if (!follower_) return refuse_part_message();
  step = input.head.step;
  follower_->take(std::move(input));
}

void trainer_state::handle(msg::partial_sum& share) {
  if (!comes_from(share.rank)) return refuse_part_message();
  if (comes_early([this, share]() mutable { follower_->take(std::move(share)); })) return;
  if (follower_) return follower_->take(std::move(share));
  if (!loop_) return refuse_part_message();
  loop_->take(std::move(share));
}

void trainer_state::handle(msg::activation_gradient& grad) {
  if (!assigned_ || !comes_from(rank_ + assigned_->job->tensor_parallel)) return refuse_part_message();
  if (follower_) return follower_->take(std::move(grad));
  if (!loop_) return refuse_part_message();
  loop_->take(std::move(grad));
}

void trainer_state::handle(msg::part_outputs& outputs) {
  if (!assigned_ || !comes_from(outputs.rank)) return refuse_part_message();
  if (follower_ && outputs.rank == rank_ + assigned_->job->tensor_parallel) return follower_->take(std::move(outputs));
  if (!loop_) return refuse_part_message();
  loop_->take(std::move(outputs));
}

template <class Answer, class Query>
caf::result<Answer> trainer_state::ask_follower(const Query& query) {
  if ((assigned_ && !follower_) || !comes_from_leader()) return unexpected_part_message(name);
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
  if (!follower_ || !comes_from_leader()) return unexpected_part_message(name);
  return follower_->answer(order);
}

// -- the others' -------------------------------------------------------------------

void trainer_state::handle(const msg::stop&) {
  stop_wanted_ = true;
  if (loop_) loop_->want_stop();
}

caf::result<msg::actor_status> trainer_state::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, "idle", step, {}, {}};
  if (follower_) follower_->tell(now);
  if (loop_) loop_->tell(now);
  return now;
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
