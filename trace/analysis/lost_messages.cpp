#include "trace/analysis/lost_messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trace/analysis/lookup.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

std::optional<trace::nanoseconds> find_complete_from(const trace::recording& run) {
  if (std::ranges::any_of(run.processes, &trace::process_info::filtered)) return {};
  return std::max<trace::nanoseconds>(0, run.complete_from());
}

/// Whether another process recorded that the link to process `i` went down after the last record of `i`, and not that
/// it came up again.
bool is_cut_off(const trace::recording& run, std::uint32_t i) {
  const trace::process_info& process = run.processes[i];
  bool down = false;
  for (const trace::event& one : run.events | of_kind(trace::kind::link_down, trace::kind::link_up)) {
    if (one.process == i || one.aux != process.node) continue;
    down = one.what == trace::kind::link_down && (down || one.begin + process.clock_error >= process.last);
  }
  return down;
}

bool is_dead(const trace::recording& run, std::uint32_t i) {
  const trace::process_info& process = run.processes[i];
  const auto others = [&](auto is_so) {
    for (std::uint32_t j = 0; j < run.processes.size(); ++j)
      if (j != i && is_so(run.processes[j])) return true;
    return false;
  };
  if (process.end == trace::ending::clean || process.alive.value_or(false)) return false;
  if (process.end == trace::ending::none && process.alive)  // if no other process outlived this one, all were killed
    return run.processes.size() == 1 || others([](const trace::process_info& other) {
             return other.alive.value_or(false) || other.end != trace::ending::none;
           });
  if (process.end == trace::ending::failed)
    return others([](const trace::process_info& other) { return other.end == trace::ending::none; });
  return others([&](const trace::process_info& other) {
           return other.end != trace::ending::none && other.last > process.last;
         }) ||
         is_cut_off(run, i);
}

}  // namespace

lost_messages::lost_messages(const causality& index) : index_(index), complete_from_(find_complete_from(index.run())) {
  const trace::recording& run = index.run();
  for (const trace::event& one : run.events | of_kind(trace::kind::credit_wait, trace::kind::credit))
    if (one.what == trace::kind::credit)
      std::erase_if(held_back_,
                    [&](const trace::event* held) { return held->process == one.process && held->aux == one.aux; });
    else if (index.arrived(one.id) == nullptr && index.handled(one.id) == nullptr)
      held_back_.push_back(&one);
  for (const trace::event& one : run.events) {
    if (is_of_message(one)) account_for(one);
    if (one.what != trace::kind::sent) continue;
    if (one.has(flag::answer)) answers_[one.cause] = &one;
    const bool came = index.arrived(one.id) != nullptr || index.handled(one.id) != nullptr ||
                      std::ranges::find(run.actors, one.id, &trace::actor_state::message) != run.actors.end();
    if (!came && std::ranges::find(held_back_, one.id, &trace::event::id) == held_back_.end())
      never_arrived_.push_back(&one);
  }
  const auto add = [&](std::uint64_t id) { accounted_[trace::sender_of(id)].push_back(trace::sequence_of(id)); };
  for (const trace::actor_state& actor : run.actors) {
    if (actor.message != 0) add(actor.message);
    for (const auto& request : actor.open) add(request.id);
  }
  for (auto& [sender, numbers] : accounted_) std::ranges::sort(numbers);
}

void lost_messages::account_for(const trace::event& one) {
  const std::uint16_t sender = trace::sender_of(one.id);
  accounted_[sender].push_back(trace::sequence_of(one.id));
  const trace::nanoseconds when = one.what == trace::kind::handled ? one.sent : one.begin;
  if (!complete_from_ || when < *complete_from_) return;
  const auto [first, is_new] = first_complete_.try_emplace(sender, trace::sequence_of(one.id));
  if (!is_new) first->second = std::min(first->second, trace::sequence_of(one.id));
}

const trace::event* lost_messages::find(std::uint16_t sender, std::uint16_t receiver, std::uint16_t type,
                                        std::uint64_t step) const {
  const auto found = std::ranges::find_if(never_arrived_, [&](const trace::event* one) {
    return one->actor == sender && one->aux == receiver && one->type == type && one->step == step;
  });
  return found == never_arrived_.end() ? nullptr : *found;
}

bool lost_messages::is_overdue(std::uint16_t receiver, trace::nanoseconds sent) const {
  const trace::recording& run = index_.run();
  const trace::actor_state* state = run.find_actor(receiver);
  if (state == nullptr) return false;  // its files are not here
  // The thread that reads links also runs some actors: messages sent since one began may still wait for that thread.
  const bool is_busy = std::ranges::any_of(run.actors, [&](const trace::actor_state& one) {
    return one.process == state->process && one.alive && one.message_begin >= 0 && one.message_begin <= sent;
  });
  if (is_busy) return false;
  const bool was_seen = run.processes[state->process].alive.value_or(false);
  return (was_seen ? run.processes[state->process].last : run.end()) - sent > longest_transit_ns;
}

const trace::event* lost_messages::answer_sent(std::uint64_t request) const {
  const auto* found = find_in(answers_, request);
  return found == nullptr ? nullptr : *found;
}

std::vector<std::uint64_t> lost_messages::unaccounted(std::uint16_t sender) const {
  const trace::actor_state* board = index_.run().find_actor(sender);
  if (!complete_from_ || board == nullptr) return {};
  std::uint64_t next = 1;
  if (*complete_from_ > 0) {
    const std::uint64_t* first = find_in(first_complete_, sender);
    if (first == nullptr) return {};
    next = *first;
  }
  constexpr std::size_t many = 10'000;  // more missing messages than this have another reason than loss
  std::vector<std::uint64_t> missing;
  const std::vector<std::uint64_t> none;
  const std::vector<std::uint64_t>* known = find_in(accounted_, sender);
  if (known == nullptr) known = &none;
  for (auto at = known->begin(); next <= board->last_sent && missing.size() < many; ++next) {
    while (at != known->end() && *at < next) ++at;
    if (at == known->end() || *at != next) missing.push_back(next);
  }
  return missing;
}

std::uint32_t open_collective::communicator() const {
  constexpr std::uint16_t first_of_many = 0x8000;
  return group >= first_of_many ? group - first_of_many : 0;
}

open_collectives::open_collectives(const causality& index) {
  parts_ = training_order(index.run()).parts();
  std::map<std::uint16_t, std::uint16_t> rank_of;
  for (const trace::actor_state& actor : index.run().actors)
    if (const auto rank = rank_in(actor.name, "trainer")) rank_of[actor.actor] = *rank;
  for (const auto& [actor, rank] : rank_of) ranks_.insert(rank);
  for (const trace::event& one : index.run().events) {
    if (one.what == trace::kind::collective) {
      all_[{one.actor, one.id}].completed = true;
    } else if (one.what == trace::kind::collective_launch) {
      const key which{one.actor, one.cause};
      state& launched = all_[which];
      launched.step = one.step;
      launched.ranks.insert(one.aux);
      launched.summed_by = one.type;
      if (rank_of.contains(trace::sender_of(one.id))) launched.own.insert(one.aux);
      if (const trace::event* share = index.handled(one.id)) launched.bucket = share->aux;
      by_launch_[one.id] = which;
      ranks_.insert(one.aux);
      position& last = last_[{one.actor, one.aux}];
      last = std::max(last, {one.step, one.cause});
    }
  }
}

std::optional<open_collective> open_collectives::of(std::uint64_t launch) const {
  const key* which = find_in(by_launch_, launch);
  if (which == nullptr) return {};
  const auto& [group, sequence] = *which;
  const state& launched = all_.at(*which);
  if (launched.completed) return {};
  open_collective made{group, sequence, launched.step, launched.bucket, {}, 0, launched.summed_by, false};
  const std::uint16_t asked = made.summed_by != 0 ? made.summed_by : group;
  std::set<std::uint16_t> known = launched.ranks;
  if (asked != group) known.merge(launched_at(asked, launched));
  made.launched = known.size();
  for (const std::uint16_t rank : ranks_)
    if (is_of_part(launched, rank) && !known.contains(rank)) made.missing.insert(rank);
  // Each group numbers its own collectives, so only the one that lacks the share can decide.
  made.skipped = asked == made.group && std::ranges::any_of(made.missing, [&](std::uint16_t rank) {
                   const position* last = find_in(last_, {made.group, rank});
                   return last != nullptr && *last > position{made.step, made.sequence};
                 });
  return made;
}

/// Whether a rank takes part in a collective: it has the same part of the network as the collective's ranks.
bool open_collectives::is_of_part(const state& what, std::uint16_t rank) const {
  return what.ranks.empty() || *what.ranks.begin() % parts_ == rank % parts_;
}

/// The ranks whose shares of the same collective have come to another group.
std::set<std::uint16_t> open_collectives::launched_at(std::uint16_t group, const state& what) const {
  for (const auto& [which, launched] : all_)
    if (which.first == group && launched.step == what.step && launched.bucket == what.bucket &&
        !launched.ranks.empty() && is_of_part(what, *launched.ranks.begin()))
      return launched.ranks;
  return {};
}

std::optional<std::uint16_t> open_collectives::launched_elsewhere(const open_collective& what,
                                                                  std::uint16_t rank) const {
  for (const auto& [which, launched] : all_)
    if (which.first != what.group && launched.step == what.step && launched.bucket == what.bucket &&
        launched.own.contains(rank))
      return which.first;
  return {};
}

std::vector<death> find_deaths(const trace::recording& run) {
  std::vector<death> all;
  for (const trace::event& one : run.events | of_kind(trace::kind::exit))
    if (one.aux != 0 && run.processes[one.process].end != trace::ending::clean)
      all.push_back({one.process, one.actor, one.begin, one.aux});
  for (std::uint32_t i = 0; i < run.processes.size(); ++i)
    if (is_dead(run, i)) all.push_back({i, {}, run.processes[i].last, 0});
  std::ranges::stable_sort(all, {}, &death::when);
  return all;
}

std::string name_of(const trace::recording& run, const death& what) {
  const std::uint32_t pid = run.processes[what.process].pid;
  if (what.actor) return fmt::format("{} (pid {})", run.actor_name(*what.actor), pid);
  std::vector<std::string> names;
  for (const trace::actor_state& actor : run.actors)
    if (actor.process == what.process && is_main_actor(actor)) names.push_back(actor.name);
  if (names.empty()) names.push_back(fmt::format("node {}", run.processes[what.process].node));
  return fmt::format("{} (pid {})", fmt::join(names, ", "), pid);
}

}  // namespace troupe::analysis
