// The master's answer to status queries. It asks its members with a short timeout: a member handles no message while it
// computes, and is then reported as computing. A query does not change the run, in any phase.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>

#include "actors/common/actor_name.hpp"
#include "actors/master/master.hpp"
#include "actors/master/status_round.hpp"

namespace troupe::actors {

namespace {

/// For evidence, a process reads the stack of each of its threads and may send its whole ring, perhaps on a busy or
/// slow machine. After this time the evidence of the other processes is reported without it.
constexpr std::chrono::seconds evidence_timeout{10};

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

template <class Handle>
std::size_t present(const std::vector<Handle>& members) {
  return static_cast<std::size_t>(std::ranges::count_if(members, [](const Handle& one) { return one != nullptr; }));
}

/// Describes what the master receives in answer to a message of type `question`.
const char* answer_to(caf::type_id_t question) {
  constexpr std::pair<caf::type_id_t, const char*> answers[] = {
      {caf::type_id_v<msg::expect_peers>, "data links"},
      {caf::type_id_v<msg::connect_peers>, "data links"},
      {caf::type_id_v<msg::instantiate>, "tables"},
      {caf::type_id_v<msg::load_state_dict>, "restored tables"},
      {caf::type_id_v<msg::restore_module>, "restored tables"},
      {caf::type_id_v<msg::state_dict>, "the final weights"},
      {caf::type_id_v<msg::row_digests>, "digests of rows"},
  };
  const auto* const known = std::ranges::find(answers, question, &std::pair<caf::type_id_t, const char*>::first);
  return known == std::end(answers) ? "an answer" : known->second;
}

}  // namespace

/// Queries the status of `who`, and stores the answer in `to`, which already has its name.
template <class Handle>
void master_state::ask_how_it_is(const std::shared_ptr<status_round>& round, const Handle& who, msg::actor_status& to) {
  ++round->missing;
  self_->request(who, status_timeout, msg::actor_query{trace.next(step, msg::id_of(round->asked))})
      .then(
          [this, round, &to](msg::actor_status& answer) {
            answer.name = to.name;
            to = std::move(answer);
            if (--round->missing == 0) report_status(*round);
          },
          [this, round, &to](const caf::error& error) {
            to.phase = error == caf::sec::request_timeout ? "computing" : "gone";
            if (--round->missing == 0) report_status(*round);
          });
}

caf::result<msg::run_status> master_state::handle(const msg::status& query) {
  auto promise = self_->make_response_promise<msg::run_status>();
  ask_all_how_they_are(query.head, [promise](const status_round& round) mutable { promise.deliver(round.overall); });
  return promise;
}

/// A query during a round shares that round's answer, so many clients cause no more work than one.
void master_state::ask_all_how_they_are(const msg::header& asked, status_reader then) {
  status_readers_.push_back(std::move(then));
  if (status_readers_.size() > 1) return;
  const auto round = std::make_shared<status_round>();
  round->asked = asked;
  msg::run_status& overall = round->overall;
  if (const auto& rules = members_.rules()) {
    overall.attempt = rules->attempt;
    overall.lost = rules->lost;
  }
  // Reserved in advance: answers are stored by reference, so no element may move.
  const auto& servers = members_.servers();
  const auto& trainers = members_.trainers();
  const auto& nodes = members_.nodes();
  overall.actors.reserve(servers.size() + trainers.size());
  overall.nodes.reserve(nodes.size());
  round->links.resize(nodes.size());
  round->groups.reserve((nodes.size() + 1) * plan_.parts);
  round->group_of.resize(trainers.size(), SIZE_MAX);
  const auto ask_all = [&](const auto& members, const char* role) {
    for (std::size_t rank = 0; rank < members.size(); ++rank)
      if (members[rank] != nullptr)
        ask_how_it_is(
            round, members[rank],
            overall.actors.emplace_back(msg::actor_status{{}, fmt::format("{} {}", role, rank), {}, step, {}, {}}));
  };
  ask_all(servers, "server");
  ask_all(trainers, "trainer");
  const auto ask_groups = [&](const std::vector<msg::part_group>& groups, const std::vector<std::uint32_t>& ranks) {
    for (const msg::part_group& one : groups) {
      for (const std::uint32_t rank : ranks)
        if (rank < trainers.size() && rank % plan_.parts == one.part) round->group_of[rank] = round->groups.size();
      ask_how_it_is(round, one.group, round->groups.emplace_back());
    }
  };
  std::vector<std::uint32_t> all_ranks(trainers.size());
  std::iota(all_ranks.begin(), all_ranks.end(), 0U);
  ask_groups(members_.groups(), all_ranks);
  for (const auto& [number, one] : nodes) {
    const msg::peer_node& what = one.what;
    ask_how_it_is(round, one.handle, round->links[overall.nodes.size()]);
    overall.nodes.push_back({what.trains, what.ranks, one.host, one.pid, one.user_name, {}});
    ask_groups(membership::groups_of(one), what.ranks);
  }
  if (--round->missing == 0) report_status(*round);
}

void master_state::report_status(status_round& round) {
  msg::run_status& overall = round.overall;
  overall.head = trace.next(step, msg::id_of(round.asked));
  overall.phase = checkpoints_.holds_up() ? "saving" : description_of(phase_);
  overall.step = step;
  overall.total_steps = plan_.total_steps;
  overall.diagnosis = diagnosis_;
  overall.servers = static_cast<std::uint32_t>(present(members_.servers()));
  overall.trainers = static_cast<std::uint32_t>(present(members_.trainers()));
  if (const auto& last = figures_.last_progress()) {
    overall.samples_per_s = last->samples_per_s;
    overall.steps_per_s = last->steps_per_s;
    overall.progress_age_s = std::chrono::duration<double>(run_figures::clock::now() - last->at).count();
  }
  for (std::size_t i = 0; i < overall.nodes.size(); ++i) overall.nodes[i].links = std::move(round.links[i].queues);
  for (msg::actor_status& one : overall.actors) {
    for (msg::queue_status& queue : one.queues)
      if (queue.sender >= trainer_number(0, plan_.servers))
        queue.name += fmt::format(" of trainer {}", queue.sender - trainer_number(0, plan_.servers));
    for (const msg::wait_status& wait : one.waits) {
      const auto causes = causes_of(wait, round);
      overall.waits.insert(overall.waits.end(), causes.begin(), causes.end());
    }
  }
  add_own_waits(overall.waits);
  for (const status_reader& read : std::exchange(status_readers_, {})) read(round);
}

/// Replaces a wait for an actor that only collects (the allreduce group, the master) by the actors that it waits for.
std::vector<msg::wait_status> master_state::causes_of(const msg::wait_status& wait, const status_round& round) const {
  std::vector<msg::wait_status> causes;
  const auto add = [&](std::string on) {
    if (on != wait.who) causes.push_back({wait.who, wait.what, wait.step, std::move(on)});
  };
  const auto is_waiter = [&](std::size_t rank) { return wait.who == fmt::format("trainer {}", rank); };
  if (wait.on == "allreduce") {
    for (std::size_t rank = 0; rank < round.group_of.size(); ++rank) {
      if (!is_waiter(rank) || round.group_of[rank] >= round.groups.size()) continue;
      for (const msg::wait_status& of_group : round.groups[round.group_of[rank]].waits)
        if (of_group.what == wait.what && of_group.step == wait.step) add(of_group.on);
    }
  } else if (wait.on == "master") {
    for (std::uint32_t replica = 0; replica < plan_.trainers; ++replica)
      if (!checkpoints_.has(replica)) add(fmt::format("trainer {}", replica * plan_.parts));
    for (const std::uint32_t rank : checkpoints_.servers()) add(fmt::format("server {}", rank));
  }
  if (causes.empty()) causes.push_back(wait);
  return causes;
}

/// Adds the waits of the master and of the run as a whole.
void master_state::add_own_waits(std::vector<msg::wait_status>& waits) const {
  if (phase_ == run_phase::gathering) {
    const auto missing = [](std::size_t wanted, std::size_t here) { return wanted - std::min(wanted, here); };
    const std::size_t servers = missing(plan_.servers, present(members_.servers()));
    const std::size_t trainers = missing(plan_.members(), present(members_.trainers()));
    std::string who = servers > 0 ? plural(servers, "server") : "";
    if (trainers > 0) who += (who.empty() ? "" : " and ") + plural(trainers, "trainer");
    waits.push_back({"", who + " to join", 0, ""});
  }
  std::set<std::pair<std::string, std::string>> overall;
  for (const auto& [number, question] : requests_.questions()) {
    const std::string whole = members_.who_is(question.receiver);
    if (auto [at, is_new] = overall.emplace(answer_to(question.type), whole.substr(0, whole.find(" ("))); is_new)
      waits.push_back({name, at->first, 0, at->second});
  }
}

// -- processes ------------------------------------------------------------------------

void master_state::handle(const msg::trouble& word) {
  if (observer_.on_trouble) observer_.on_trouble(word.words);
}

/// Sends each node what `ask` returns, except the node of session `*except_session`, which may be null. Calls `take`
/// with each answer, and `then` once all have answered or `time` is over.
template <class Answer, class Ask>
void master_state::ask_nodes(std::chrono::seconds time, const std::string* except_session, const Ask& ask,
                             const std::function<void(Answer&)>& take, std::function<void()> then) {
  const auto missing = std::make_shared<std::size_t>(1);
  const auto one_less = [missing, then = std::move(then)] {
    if (--*missing == 0) then();
  };
  for (const auto& [number, one] : members_.nodes()) {
    if (except_session != nullptr && one.session == *except_session) continue;
    ++*missing;
    self_->request(one.handle, time, ask())
        .then(
            [take, one_less](Answer& answer) {
              take(answer);
              one_less();
            },
            [one_less](const caf::error&) { one_less(); });
  }
  one_less();
}

/// A process that does not answer in time is left out: it may be the faulty one.
caf::result<msg::collected_evidence> master_state::handle(const msg::collect_evidence& query) {
  auto promise = self_->make_response_promise<msg::collected_evidence>();
  const auto all = std::make_shared<msg::collected_evidence>();
  all->head = trace.next(step, msg::id_of(query.head));
  ask_nodes<msg::evidence>(
      evidence_timeout, nullptr,
      [&] {
        return msg::evidence_query{trace.next(step, msg::id_of(query.head)), query.boot};
      },
      [all](msg::evidence& part) { all->parts.push_back(std::move(part)); },
      [all, promise]() mutable { promise.deliver(std::move(*all)); });
  return promise;
}

/// Updates `step` from the remaining processes, since the trainers' progress reports are older, then calls `then`.
/// `lost`: the session of a process that does not answer.
void master_state::learn_step(const std::string& lost, std::function<void()> then) {
  if (phase_ < run_phase::training) return then();
  ask_nodes<msg::actor_status>(
      status_timeout, &lost, [this] { return msg::actor_query{trace.next(step, plan_.cause)}; },
      [this](const msg::actor_status& now) { step = std::max(step, now.step); }, std::move(then));
}

}  // namespace troupe::actors
