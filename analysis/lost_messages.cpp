#include "analysis/lost_messages.hpp"

#include <algorithm>

namespace troupe::analysis {

namespace {

std::optional<nanoseconds> find_complete_from(const recording& run) {
  if (std::ranges::any_of(run.processes, &process_info::filtered)) return {};
  return std::max<nanoseconds>(0, run.complete_from());
}

}  // namespace

lost_messages::lost_messages(const causality& index) : index_(index), complete_from_(find_complete_from(index.run())) {
  const recording& run = index.run();
  find_held_back();
  for (const event& one : run.events) {
    if (one.what == kind::handled || one.what == kind::arrived || one.what == kind::sent) account_for(one);
    if (one.what != kind::sent) continue;
    if (one.has(flag::answer)) answers_[one.cause] = &one;
    const bool came = index.arrived(one.id) != nullptr || index.handled(one.id) != nullptr ||
                      std::ranges::find(run.actors, one.id, &actor_state::message) != run.actors.end();
    if (!came && std::ranges::find(held_back_, one.id, &event::id) == held_back_.end()) never_arrived_.push_back(&one);
  }
  for (const actor_state& actor : run.actors) {
    if (actor.message != 0) accounted_[sender_of(actor.message)].push_back(sequence_of(actor.message));
    for (const auto& request : actor.open) accounted_[sender_of(request.id)].push_back(sequence_of(request.id));
  }
  for (auto& [sender, numbers] : accounted_) std::ranges::sort(numbers);
}

void lost_messages::find_held_back() {
  for (const event& one : index_.run().events) {
    if (one.what == kind::credit_wait && index_.arrived(one.id) == nullptr && index_.handled(one.id) == nullptr)
      held_back_.push_back(&one);
    if (one.what == kind::credit)
      std::erase_if(held_back_,
                    [&](const event* held) { return held->process == one.process && held->aux == one.aux; });
  }
}

void lost_messages::account_for(const event& one) {
  const std::uint16_t sender = sender_of(one.id);
  accounted_[sender].push_back(sequence_of(one.id));
  const nanoseconds when = one.what == kind::handled ? one.sent : one.begin;
  if (!complete_from_ || when < *complete_from_) return;
  const auto [first, is_new] = first_complete_.try_emplace(sender, sequence_of(one.id));
  if (!is_new) first->second = std::min(first->second, sequence_of(one.id));
}

const event* lost_messages::find(std::uint16_t sender, std::uint16_t receiver, std::uint16_t type,
                                 std::uint64_t step) const {
  const auto found = std::ranges::find_if(never_arrived_, [&](const event* one) {
    return one->actor == sender && one->aux == receiver && one->type == type && one->step == step;
  });
  return found == never_arrived_.end() ? nullptr : *found;
}

const event* lost_messages::answer_sent(std::uint64_t request) const {
  const auto found = answers_.find(request);
  return found == answers_.end() ? nullptr : found->second;
}

std::vector<std::uint64_t> lost_messages::unaccounted(std::uint16_t sender) const {
  const actor_state* board = index_.run().find_actor(sender);
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
