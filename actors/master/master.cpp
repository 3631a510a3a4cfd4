#include "actors/master/master.hpp"

#include <algorithm>
#include <limits>

#include "actors/collective/allreduce_group.hpp"
#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/common/replay_gate.hpp"
#include "actors/common/traced_system.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

void master_state::start(std::uint64_t run, run_observer observer, run_checkpoints checkpoints,
                         std::optional<node_rules> nodes, planner plan) {
  planner_ = std::move(plan);
  plan_.run = run;
  plan_.checkpoints = std::move(checkpoints);
  observer_ = std::move(observer);
  trace.start(self_, self_->system(), run, master_number, name);
  began_ = run_figures::clock::now();
  members_.start(std::move(nodes), observer_.on_note);
  requests_.start([this](const caf::error& error, const caf::actor_addr& receiver, caf::string_view question) {
    act_on(members_.assess(error, receiver, question, step));
  });
  self_->set_down_handler([this](const caf::down_msg& down) { act_on(members_.assess(down, step)); });
}

void master_state::enter(run_phase next) {
  TROUPE_ASSERT(may_follow(phase_, next));
  TROUPE_ASSERT(promise_.pending());
  phase_ = next;
}

// -- members ------------------------------------------------------------------------

template <class Offer>
caf::result<msg::joined> master_state::join(const Offer& offer, const caf::actor_addr& who) {
  const auto rank = members_.join(offer, self_->current_sender());
  if (!rank) return rank.error();
  self_->monitor(who);
  begin_if_complete();
  return msg::joined{trace.next(0, msg::id_of(offer.head)), *rank};
}

caf::result<msg::admitted> master_state::handle(const msg::join_node& offer) {
  if (members_.is_remote() && phase_ == run_phase::unordered) {
    early_.emplace_back(offer, self_->make_response_promise<msg::admitted>());
    return early_.back().second;
  }
  return admit(offer);
}

caf::expected<msg::admitted> master_state::admit(const msg::join_node& offer) {
  auto made = members_.join(offer, step);
  if (!made) return made.error();
  self_->monitor(offer.node);  // its connection may have ended before the offer arrived
  return msg::admitted{
      .head = trace.next(0, msg::id_of(offer.head)),
      .run = plan_.run,
      .node = made->node,
      .incarnation = made->incarnation,
      .ranks = std::move(made->ranks),
      .servers = plan_.servers,
      .resume = members_.rules()->resume,
      .on_devices = plan_.devices.on_devices,
      .device_reason = plan_.devices.reason,
      .rejoin_ms = members_.rules()->again ? static_cast<std::uint64_t>(members_.rules()->rejoin_timeout.count()) : 0};
}

void master_state::handle(const msg::give_up& word) {
  if (!is_under_way(phase_))
    fail(make_failure(errc::peer_failed, "{}; the run had not begun, so start it anew", word.words));
}

// -- a run, in order ----------------------------------------------------------------

caf::result<msg::run_result> master_state::handle(const msg::run& order) {
  if (phase_ != run_phase::unordered) return make_failure(errc::wrong_context, "a run is under way");
  promise_ = self_->make_response_promise<msg::run_result>();
  auto plan = planner_(order, plan_.checkpoints);
  if (plan && !members_.is_remote())
    if (auto error = members_.check(plan->servers, plan->members())) plan = std::move(error);
  if (!plan) {
    promise_.deliver(plan.error());
    return promise_;
  }
  plan->run = plan_.run;
  plan->cause = msg::id_of(order.head);
  plan->return_weights = order.return_weights;
  plan_ = std::move(*plan);
  step = plan_.steps_done;
  members_.open(plan_.servers, plan_.members(), plan_.parts, plan_.slices, plan_.settings);
  figures_.start(plan_);
  checkpoints_.start(plan_, tables_.tables(), figures_, observer_.on_checkpoint);
  enter(run_phase::gathering);
  for (auto& [offer, promise] : std::exchange(early_, {})) promise.deliver(admit(offer));
  if (changes_.stops() && members_.is_remote())
    handle(msg::stop{order.head});
  else
    begin_if_complete();
  if (members_.is_remote() && members_.rules()->attempt > 1) wait_for_lost_members();
  return promise_;
}

/// Waits some time for members of the previous attempt to come back. Then the present members host the lost ranks.
void master_state::wait_for_lost_members() {
  self_->run_delayed(members_.rules()->rejoin_timeout, [this] {
    if (phase_ != run_phase::gathering) return;
    const auto given = members_.rehost();
    if (!given) return fail(given.error());
    for (const auto& [node, ranks] : *given)
      self_->send(members_.nodes().at(node).handle, msg::host_ranks{trace.next(step, plan_.cause), ranks});
    wait_for_lost_members();  // a member that hosts ranks now may also be lost
  });
}

void master_state::begin_if_complete() {
  if (phase_ != run_phase::gathering || !members_.complete()) return;
  members_.close();
  checkpoints_.save_beginning();
  if (members_.is_remote()) return connect_nodes();
  std::vector<msg::allreduce_actor> groups;
  for (std::uint32_t part = 0; part < plan_.parts; ++part) {
    groups.push_back(
        self_->spawn(allreduce_group, plan_.run, group_layout::one_process(plan_.trainers, part, plan_.parts)));
    self_->monitor(groups.back());
  }
  members_.set_groups(std::move(groups));
  make_tables();
}

void master_state::connect_nodes() {
  enter(run_phase::connecting);
  std::vector<msg::peer_node> peers;
  for (const auto& [number, one] : members_.nodes()) peers.push_back(one.what);
  // A later attempt does not try: its servers could write before, and it must not end because the disk fails for a
  // moment.
  const bool tries = members_.rules()->attempt == 1;
  const std::string folder = tries ? checkpoints_.folder_to_try() : std::string();
  for (const auto& [number, one] : members_.nodes())
    requests_.ask<msg::committed>(
        one.handle,
        msg::expect_peers{trace.next(0, plan_.cause), peers, folder, plan_.tables.servers_talk, plan_.parts},
        [](msg::committed&) {}, [this] { connect_links(); });
}

void master_state::connect_links() {
  if (members_.rules()->attempt == 1) checkpoints_.tried();
  for (const auto& [number, one] : members_.nodes())
    requests_.ask<msg::connected>(
        one.handle, msg::connect_peers{trace.next(0, plan_.cause)},
        [this, number = number](msg::connected& made) {
          auto wrong = members_.linked(number, std::move(made));
          for (const msg::part_group& its : membership::groups_of(members_.nodes().at(number)))
            self_->monitor(its.group);
          return wrong;
        },
        [this] { make_tables(); });
}

void master_state::make_tables() {
  enter(run_phase::making_tables);
  tables_.start(plan_, members_.servers(), [this] { start_training(); });
}

void master_state::start_training() {
  enter(run_phase::training);
  const auto now = run_figures::clock::now();
  figures_.set_up_took(std::chrono::duration<double>(now - std::exchange(began_, now)).count());
  if (observer_.on_begin) observer_.on_begin(plan_.steps_done);
  if (plan_.companion)
    plan_.companion->begin(self_->system(), plan_.run, members_.servers(), tables_.tables(),
                           [this, me = caf::actor_cast<caf::weak_actor_ptr>(self_)](const caf::error& why) {
                             run_in(me, [this, why] { fail(why); });
                           });
  // In a replay, this process does what the recorded run did between its processes.
  const replay_control* again = replay_of(self_->system());
  const auto& rules = members_.rules();
  std::vector<msg::blob> row_index;
  if (rules && plan_.data) row_index.push_back(msg::blob::own(plan_.data->row_index()));
  for (std::uint32_t rank = 0; rank < members_.trainers().size(); ++rank)
    requests_.ask<msg::trained>(
        members_.trainers()[rank],
        msg::train{.head = trace.next(0, plan_.cause),
                   .rank = rank,
                   .trainers = plan_.trainers,
                   .job = plan_.settings,
                   .tables = members_.as_seen_by(rank, tables_.tables()),
                   .group = members_.group_of(rank).group,
                   .reports = self_,
                   .from = plan_.starts[rank / plan_.parts].position,
                   .saves = plan_.checkpoints.store != nullptr,
                   .checkpoint_every = plan_.checkpoints.every,
                   .data_digest = plan_.data_digest(),
                   .remote = rules || (again != nullptr && again->is_remote()),
                   .request_timeout_ms = rules ? static_cast<std::uint64_t>(rules->request_timeout.count()) : 0,
                   .group_number = members_.group_of(rank).number,
                   .names = plan_.starts[rank / plan_.parts].names,
                   .servers = members_.servers_of(rank),
                   .checkpoint_seconds = plan_.checkpoints.seconds,
                   .checkpoint_mtbf = mean_time_between_failures(plan_.checkpoints, members_),
                   .row_index = row_index},
        [this, rank](msg::trained& result) { trainer_done(rank, std::move(result)); }, [this] { training_done(); });
}

void master_state::trainer_done(std::uint32_t rank, msg::trained&& result) {
  if (plan_.total_steps == 0)
    for (const msg::trainer_actor& one : members_.trainers())
      self_->send(one, msg::trainer_ended{trace.next(result.steps, plan_.cause), rank, result.steps});
  if (rank % plan_.parts > 0) return;  // the replica's first part reports for all
  checkpoints_.ended(rank / plan_.parts);
  weights_.add(rank / plan_.parts, std::move(result));
}

/// All trainers have ended: ends the companion that runs beside them.
void master_state::training_done() {
  if (!plan_.companion) return collect();
  weights_.settle(plan_, tables_.tables(), [this] {  // so that the companion finds the state that training has left
    plan_.companion->end([this, me = caf::actor_cast<caf::weak_actor_ptr>(self_)] {
      run_in(me, [this] {
        if (phase_ == run_phase::training) collect();
      });
    });
  });
}

void master_state::collect() {
  enter(run_phase::collecting);
  const std::chrono::duration<double> took = run_figures::clock::now() - began_;
  if (plan_.total_steps == 0) figures_.training_took(took.count());
  if (auto error = weights_.check()) return fail(error);
  if (const auto trainers = changes_.after(weights_.step(), plan_.changes, plan_.total_steps); trainers > 0) {
    msg::run_result so_far;
    so_far.head = trace.next(0, plan_.cause);
    figures_.fill(so_far);
    so_far.steps = weights_.step();
    so_far.stopped = true;
    so_far.goes_on_with = trainers;
    return end(std::move(so_far));
  }
  weights_.collect(plan_, tables_.tables(), [this] { deliver(); });
}

void master_state::deliver() {
  msg::run_result result;
  result.head = trace.next(0, plan_.cause);
  figures_.fill(result);
  weights_.fill(result);
  end(std::move(result));
}

void master_state::end(msg::run_result&& result) {
  enter(run_phase::over);
  const std::uint32_t trainers = result.goes_on_with;
  promise_.deliver(std::move(result));
  if (trainers == 0) return end_members(true, {}, false);
  for (const std::uint32_t number : members_.surplus(trainers))
    self_->send(members_.nodes().at(number).handle, msg::run_over{trace.next(step, plan_.cause), true, {}});
  end_members(true, fmt::format("the run continues with {} trainer{}", trainers, trainers == 1 ? "" : "s"), true);
}

void master_state::fail(const caf::error& error) {
  if (!promise_.pending()) return;
  enter(run_phase::over);
  if (observer_.on_failure) observer_.on_failure(step);
  promise_.deliver(error);
  const auto& rules = members_.rules();
  const bool again = protocol::is_transient(error) && rules && rules->again && rules->again();
  end_members(false, protocol::describe(error), again);
}

/// Ends the members of this process; nodes end their own.
void master_state::end_members(bool done, const std::string& text, bool again) {
  requests_.close();
  if (plan_.companion) plan_.companion->stop();
  for (const auto& [number, one] : members_.nodes())
    self_->send(one.handle, msg::run_over{trace.next(step, plan_.cause), done, text, again});
  if (!members_.is_remote())
    for (const caf::actor_addr& address : members_.addresses())
      if (auto strong = caf::actor_cast<caf::actor>(address)) self_->send_exit(strong, caf::exit_reason::user_shutdown);
  self_->quit();
}

void master_state::handle(const msg::stop& order) {
  changes_.stop();
  if (observer_.on_stop) observer_.on_stop();
  if (phase_ > run_phase::unordered && phase_ < run_phase::training) {
    msg::run_result nothing;
    nothing.head = trace.next(0, msg::id_of(order.head));
    figures_.fill(nothing);  // a resumed run has some
    if (!figures_.has_epoch()) nothing.loss = std::numeric_limits<double>::quiet_NaN();
    nothing.steps = plan_.steps_done;
    nothing.stopped = true;
    return end(std::move(nothing));
  }
  for (const msg::trainer_actor& one : members_.trainers())
    self_->send(one, msg::stop{trace.next(step, msg::id_of(order.head))});
}

caf::result<void> master_state::handle(const msg::scale& order) {
  if (const auto refused = changes_.ask(order.trainers, plan_.changes, phase_, step))
    return make_failure(errc::bad_input, "--trainers {}: {}", order.trainers, *refused);
  for (const msg::trainer_actor& one : members_.trainers())
    self_->send(one, msg::stop{trace.next(step, msg::id_of(order.head))});
  return {};
}

// -- what trainers report -----------------------------------------------------------

void master_state::handle(const msg::progress& report) {
  if (!is_under_way(phase_)) return;
  step = std::max(step, report.head.step);
  const run_progress now = figures_.add(report);
  trace.metric(trace::metric_name::loss, now.step, now.loss);
  trace.metric(trace::metric_name::samples_per_s, now.step, now.samples_per_s);
  if (observer_.on_progress) observer_.on_progress(now);
}

void master_state::handle(msg::epoch_report& report) {
  if (!is_under_way(phase_)) return;
  step = std::max(step, report.head.step);
  // The next attempt's trainers finish this epoch and report all of it.
  const bool is_partial = plan_.epochs && !plan_.epochs->completes_epoch(report.head.step);
  if (is_partial && changes_.after(report.head.step, plan_.changes, plan_.total_steps) > 0) return;
  pass_on(figures_.add(std::move(report)));
}

void master_state::handle(msg::evaluation& share) {
  if (is_under_way(phase_)) pass_on(figures_.add(std::move(share)));
}

void master_state::pass_on(const std::vector<epoch_summary>& complete) {
  for (const epoch_summary& epoch : complete) {
    using enum trace::metric_name;
    const model::epoch_figures& figures = epoch.figures;
    const std::pair<trace::metric_name, std::optional<double>> values[] = {
        {loss, figures.loss},           {auc, figures.auc},   {accuracy, figures.accuracy},
        {test_loss, figures.test_loss}, {rmse, figures.rmse}, {staleness, epoch.staleness_max}};
    for (const auto& [what, value] : values)
      if (value) trace.metric(what, epoch.step, *value);
    for (const auto& one : figures.own)
      if (one.value) trace.metric(trace.given_metric(std::string(one.name())), epoch.step, *one.value);
    if (observer_.on_epoch) observer_.on_epoch(epoch);
  }
}

caf::result<msg::committed> master_state::handle(msg::save_dense& share) {
  step = std::max(step, share.head.step);  // a loss after the checkpoint belongs to this step or a later one
  auto answer = self_->make_response_promise<msg::committed>();
  if (auto error = checkpoints_.add(std::move(share), answer)) answer.deliver(std::move(error));
  return answer;
}

msg::master_actor::behavior_type master(master_state::pointer self, std::uint64_t run_number, run_observer observer,
                                        run_checkpoints checkpoints, std::optional<node_rules> nodes, planner plan) {
  self->state.start(run_number, std::move(observer), std::move(checkpoints), std::move(nodes), std::move(plan));
  // The failure is the answer to the run's requester: no other actor monitors the master.
  fail_on_exceptions(self, [self](const caf::error& error) { self->state.fail(error); });
  return {
      recorded<msg::join_server>(self),   recorded<msg::join_trainer>(self), recorded<msg::run>(self),
      recorded<msg::status>(self),        recorded<msg::stop>(self),         recorded<msg::progress>(self),
      recorded<msg::epoch_report>(self),  recorded<msg::evaluation>(self),   recorded<msg::save_dense>(self),
      recorded<msg::join_node>(self),     recorded<msg::node_lost>(self),    recorded<msg::link_lost>(self),
      recorded<msg::give_up>(self),       recorded<msg::trouble>(self),      recorded<msg::collect_evidence>(self),
      recorded<msg::verdict_found>(self), recorded<msg::scale>(self),
  };
}

}  // namespace troupe::actors
