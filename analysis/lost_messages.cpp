#include "analysis/lost_messages.hpp"

#include <algorithm>

namespace troupe::analysis {

namespace {

std::optional<trace::nanoseconds> find_complete_from(const trace::recording& run) {
  if (std::ranges::any_of(run.processes, &trace::process_info::filtered)) return {};
  return std::max<trace::nanoseconds>(0, run.complete_from());
}

}  // namespace

lost_messages::lost_messages(const causality& index) : index_(index), complete_from_(find_complete_from(index.run())) {
  const trace::recording& run = index.run();
  find_held_back();
  for (const trace::event& one : run.events) {
    if (one.what == trace::kind::handled || one.what == trace::kind::arrived || one.what == trace::kind::sent)
      account_for(one);
    if (one.what != trace::kind::sent) continue;
    if (one.has(flag::answer)) answers_[one.cause] = &one;
    const bool came = index.arrived(one.id) != nullptr || index.handled(one.id) != nullptr ||
                      std::ranges::find(run.actors, one.id, &trace::actor_state::message) != run.actors.end();
    if (!came && std::ranges::find(held_back_, one.id, &trace::event::id) == held_back_.end())
      never_arrived_.push_back(&one);
  }
  for (const trace::actor_state& actor : run.actors) {
    if (actor.message != 0) accounted_[trace::sender_of(actor.message)].push_back(trace::sequence_of(actor.message));
    for (const auto& request : actor.open)
      accounted_[trace::sender_of(request.id)].push_back(trace::sequence_of(request.id));
  }
  for (auto& [sender, numbers] : accounted_) std::ranges::sort(numbers);
}

void lost_messages::find_held_back() {
  for (const trace::event& one : index_.run().events) {
    if (one.what == trace::kind::credit_wait && index_.arrived(one.id) == nullptr && index_.handled(one.id) == nullptr)
      held_back_.push_back(&one);
    if (one.what == trace::kind::credit)
      std::erase_if(held_back_,
                    [&](const trace::event* held) { return held->process == one.process && held->aux == one.aux; });
  }
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

const trace::event* lost_messages::answer_sent(std::uint64_t request) const {
  const auto found = answers_.find(request);
  return found == answers_.end() ? nullptr : found->second;
}

std::vector<std::uint64_t> lost_messages::unaccounted(std::uint16_t sender) const {
  const trace::actor_state* board = index_.run().find_actor(sender);
  if (!complete_from_ || board == nullptr) return {};
  std::uint64_t next = 1;
  if (*complete_from_ > 0) {
    const auto first = first_complete_.find(sender);
    if (first == first_complete_.end()) return {};
    next = first->second;
  }
  constexpr std::size_t many = 10'000;  // no loss but another reason, which nobody wants listed
  std::vector<std::uint64_t> missing;
  const auto known = accounted_.find(sender);
  auto at = known == accounted_.end() ? std::vector<std::uint64_t>::const_iterator{} : known->second.begin();
  for (; next <= board->last_sent && missing.size() < many; ++next) {
    if (known != accounted_.end()) {
      while (at != known->second.end() && *at < next) ++at;
      if (at != known->second.end() && *at == next) continue;
    }
    missing.push_back(next);
  }
  return missing;
}

}  // namespace troupe::analysis
