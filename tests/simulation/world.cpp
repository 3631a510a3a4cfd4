#include "tests/simulation/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tests/simulation/leader.hpp"
#include "tests/simulation/member.hpp"

namespace troupe::simulation {
namespace {

/// A run must end within these limits after its last fault.
constexpr std::uint64_t steps_after_faults = 400'000;
constexpr std::chrono::minutes time_after_faults{20};
constexpr std::uint32_t attempts_after_faults = 8;
/// How long the simulation continues after a run, for example for processes that wake only after it.
constexpr std::chrono::minutes aftermath{2};

}  // namespace

world::world(const scenario& what, bool is_logged) : what_(what), is_logged_(is_logged), events_(what.seed) {
  last_fault_ = events_.now();
  disk_.forget(what.planted.sync);
}

world::~world() {
  disk_.caller(0, true);
  former_servers_.clear();
  leader_.reset();
  members_.clear();
  former_leaders_.clear();
}

void world::report(const std::string& args) {
  if (is_logged_)
    std::fprintf(stderr, "%9.3f ms, step %llu: %s\n",
                 static_cast<double>(events_.now().time_since_epoch().count() - 3'600'000'000'000) / 1e6,
                 static_cast<unsigned long long>(events_.steps()), args.c_str());
}

void world::begun() {
  ++attempts_;
  late_attempts_ = events_.now() > last_fault_ ? late_attempts_ + 1 : 0;
}

void world::finished(reported_run told) {
  report("the run has ended");
  if (told_ || !problem_.empty()) return;
  told_ = std::move(told);
  told_->epochs = epochs_;
}

void world::failed(const std::string& why) {
  report("failed: " + why);
  if (problem_.empty()) problem_ = why;
}

// -- the run ------------------------------------------------------------------------------

outcome world::run() {
  lead();
  std::size_t next_fault = 0;
  std::optional<sim_time> end;
  while (problem_.empty()) {
    for (; next_fault < what_.faults.size() && what_.faults[next_fault].at <= events_.steps(); ++next_fault)
      inflict(what_.faults[next_fault]);
    wake_who_is_due();
    if (told_ && !end) end = events_.now() + aftermath;
    if (end && events_.now() > *end) break;
    if (!events_.step()) {
      if (!told_) failed("nothing is left to do");
      break;
    }
    if (!told_)
      if (const auto why = overdue()) failed(*why);
  }
  outcome made{.told = {},
               .problem = problem_,
               .steps = events_.steps(),
               .fingerprint = events_.fingerprint(),
               .attempts = attempts_,
               .seconds = std::chrono::duration<double>(events_.now().time_since_epoch()).count()};
  if (problem_.empty()) made.told = told_;
  return made;
}

std::optional<std::string> world::overdue() const {
  const std::uint64_t steps = events_.steps() - last_fault_step_;
  if (steps > steps_after_faults) return fmt::format("the run has not ended {} steps after the last fault", steps);
  if (late_attempts_ > attempts_after_faults)
    return fmt::format("the run has not ended {} attempts after the last fault", attempts_after_faults);
  const auto time = events_.now() - last_fault_;
  if (time > time_after_faults)
    return fmt::format("the run has not ended {} minutes after the last fault",
                       std::chrono::duration_cast<std::chrono::minutes>(time).count());
  return std::nullopt;
}

/// Starts a new process at place 0, which begins an attempt.
void world::lead() {
  if (leader_) former_leaders_.push_back(std::move(leader_));
  leader_ = std::make_unique<leader>(*this, next_process_++);
  events_.after(sim_duration(0), &leader_->process(), event_tag::starting,
                [one = leader_.get()] { one->begin_attempt(); });
}

void world::fill(place_number place) {
  members_.push_back(std::make_unique<member>(*this, next_process_++, place));
  member* const made = members_.back().get();
  at_place_[place] = made;
  report(fmt::format("{} starts", made->process().name()));
  constexpr sim_duration least{1'000'000};
  constexpr sim_duration most{400'000'000};
  events_.after(events_.draw(least, most), &made->process(), event_tag::starting, [made] { made->join(); });
}

member* world::at(place_number place) {
  const auto known = at_place_.find(place);
  return known == at_place_.end() ? nullptr : known->second;
}

bool world::has_process_like(place_number place) const {
  return std::ranges::any_of(members_, [&](const auto& one) {
    return !one->is_dead() && (one->place() > what_.servers) == (place > what_.servers);
  });
}

event_owner* world::process_at(place_number place) {
  if (place == 0) return leader_ ? &leader_->process() : nullptr;
  member* const one = at(place);
  return one == nullptr ? nullptr : &one->process();
}

void world::connect(event_owner& from, event_owner* to, acceptor accept, connected done) {
  const auto answer = std::make_shared<connected>(std::move(done));
  const auto give = [answer](result<std::shared_ptr<sim_link>> made) {
    const auto take = std::exchange(*answer, nullptr);
    if (take)
      take(std::move(made));
    else if (made)
      (*made)->close();
  };
  const auto way = [this] { return events_.draw(what_.network.least, what_.network.most); };
  if (to == nullptr || to->is_dead()) {
    events_.after(way(), &from, event_tag::connecting,
                  [give] { give(failure(fault_kind::unreachable, "no process is there")); });
    return;
  }
  events_.after(way(), to, event_tag::connecting, [this, &from, to, accept = std::move(accept), give, way] {
    if (from.is_dead()) return;
    connections_.push_back(std::make_unique<sim_connection>(events_, what_.network, from, *to));
    sim_connection& made = *connections_.back();
    const auto accepted = accept(made.end(1));
    events_.after(way(), &from, event_tag::connecting, [give, near = made.end(0), accepted] {
      accepted ? give(near) : give(tl::unexpected(accepted.error()));
    });
  });
  events_.after(what_.network.dead_after, &from, event_tag::connecting,
                [give] { give(failure(fault_kind::unreachable, "no process answers there")); });
}

void world::exited(event_owner& one) {
  events_.kill(one);  // the process has closed its connections itself
  disk_.release(one.number());
}

// -- faults -------------------------------------------------------------------------------

void world::inflict(const fault_plan& one) {
  report(describe(one, what_.servers));
  last_fault_step_ = events_.steps();
  last_fault_ = std::max(last_fault_, events_.now());
  events_.note(static_cast<std::uint64_t>(event_tag::fault));
  model::random_sequence random(one.key);
  event_owner* const victim = process_at(one.place);
  using kind = fault_plan::kind;
  if (one.what == kind::power) return cut_power(random);
  if (one.what == kind::disk) {
    disk_.fail(one.skipped, one.count);
    last_fault_ = std::max(last_fault_, events_.now() + one.time);
    return events_.after(one.time, nullptr, event_tag::fault, [this] { disk_.mend(); });
  }
  if (victim == nullptr || victim->is_dead()) return;
  if (one.what == kind::stop) return stop(*victim, one);
  if (one.what == kind::slow) {
    for (const auto& way : connections_)
      if (way->joins(*victim)) way->slow_down(one.time, events_.now() + 10 * one.time);
    last_fault_ = std::max(last_fault_, events_.now() + 10 * one.time);
    return;
  }
  if (one.what == kind::cut) {
    event_owner* const other = process_at(one.other);
    if (other == nullptr || other->is_dead()) return;
    for (const auto& way : connections_)
      if (way->joins(*victim, *other) && !way->is_over()) way->cut(random);
    return;
  }
  kill(*victim, random.below(4) > 0, random);
  if (one.place == 0) {
    constexpr sim_duration least{200'000'000};
    constexpr sim_duration most{3'000'000'000};
    events_.after(events_.draw(least, most), nullptr, event_tag::starting, [this] {
      if (leader_->process().is_dead()) lead();
    });
  }
}

void world::kill(event_owner& receiver, bool at_once, model::random_sequence& random) {
  if (receiver.is_dead()) return;
  events_.kill(receiver);
  disk_.release(receiver.number());
  for (const auto& way : connections_)
    if (way->joins(receiver)) way->lost(receiver, at_once, random);
}

void world::stop(event_owner& receiver, const fault_plan& how) {
  if (receiver.is_stopped()) return;
  const std::uint64_t number = ++stops_[&receiver];
  events_.stop(receiver);
  last_fault_ = std::max(last_fault_, events_.now() + how.time);
  const auto still = [this, &receiver, number] { return receiver.is_stopped() && stops_[&receiver] == number; };
  for (const auto& way : connections_)
    if (way->joins(receiver)) way->falls_silent(receiver, still);
  if (how.steps != UINT64_MAX) wake_at_.emplace_back(&receiver, events_.steps() + how.steps);
  events_.after(how.time, nullptr, event_tag::waking, [this, &receiver, still] {
    if (still()) wake(receiver);
  });
}

void world::wake(event_owner& receiver) {
  if (!receiver.is_stopped()) return;
  report(fmt::format("process {} wakes", receiver.number()));
  std::erase_if(wake_at_, [&](const auto& one) { return one.first == &receiver; });
  last_fault_ = std::max(last_fault_, events_.now());
  last_fault_step_ = events_.steps();
  events_.wake(receiver);
}

void world::wake_who_is_due() {
  for (const auto& [receiver, step] : std::vector(wake_at_))
    if (step <= events_.steps()) wake(*receiver);
}

void world::cut_power(model::random_sequence& random) {
  if (leader_) kill(leader_->process(), false, random);
  for (const auto& one : members_) kill(one->process(), false, random);
  disk_.cut_power(random);
  constexpr std::chrono::seconds off{5};
  last_fault_ = std::max(last_fault_, events_.now() + off);
  events_.after(off, nullptr, event_tag::power, [this] {
    if (leader_->process().is_dead()) lead();
  });
}

}  // namespace troupe::simulation
