#include "analysis/lost_messages.hpp"

#include <algorithm>

#include "analysis/lookup.hpp"

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
  constexpr std::size_t many = 10'000;  // no loss but another reason, which nobody wants listed
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

}  // namespace troupe::analysis
