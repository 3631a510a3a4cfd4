#include "trace/analysis/why.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "trace/analysis/lookup.hpp"

namespace troupe::analysis {

namespace {

const trace::event* record_of(const causality& of, std::uint64_t id) {
  if (const trace::event* handled = of.handled(id)) return handled;
  const trace::event* arrived = of.arrived(id);
  return arrived != nullptr ? arrived : of.sent(id);
}

hop hop_of(const causality& of, const trace::event& message) {
  hop one{message.id, &message, of.trigger(message) != message.cause, 0, 0, 0, 0};
  if (message.what != trace::kind::handled) return one;
  one.wire = std::max<trace::nanoseconds>(message.arrived - message.sent, 0);  // clocks may differ a little
  one.waited = message.begin - message.arrived;
  one.worked = message.end - message.begin;
  if (const trace::event* sender = of.sent_in(message)) one.into = message.sent - sender->begin;
  return one;
}

/// Finds all activities that could have influenced a message: of each actor those between two indices.
class influence_search {
 public:
  influence_search(const causality& of, std::uint64_t step) : of_(of), step_(step) {}

  /// Adds the actor's activities up to `activity`, and after `run` all that could have influenced them.
  void reach(const trace::event& activity) {
    bounds& actor = of_actor(activity.actor);
    const std::size_t index = of_.index_of(activity);
    if (index < actor.end) return;  // added already, or of an earlier step
    const std::size_t from = actor.end;
    actor.end = index + 1;
    for (std::size_t i = from; i <= index; ++i) todo_.push_back(of_.activities(activity.actor)[i]);
  }

  void run() {
    while (!todo_.empty()) {
      const trace::event* one = todo_.back();
      todo_.pop_back();
      if (one->what != trace::kind::handled) continue;
      const trace::event* sender = of_.sent_in(*one);
      // If the records do not show in which activity it was sent: the sender's last one before.
      if (sender == nullptr) sender = of_.activity_at(trace::sender_of(one->id), one->sent);
      if (sender != nullptr && sender != one) reach(*sender);
    }
  }

  influence result(std::uint64_t id) const {
    influence found{id, step_, {}, 0};
    for (const auto& [actor, range] : bounds_) {
      influence::part part{actor, {}, range.begin == 0 && overwritten(actor)};
      for (std::size_t i = range.end; i > range.begin; --i) {
        const trace::event* one = of_.activities(actor)[i - 1];
        if (one->what == trace::kind::handled && one->id != id) part.messages.push_back(one);
      }
      found.messages += part.messages.size();
      if (!part.messages.empty()) found.actors.push_back(std::move(part));
    }
    return found;
  }

 private:
  struct bounds {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  bool overwritten(std::uint16_t actor) const {
    const trace::event& first = *of_.activities(actor).front();
    const auto& processes = of_.run().processes;
    return first.process < processes.size() && processes[first.process].overwritten > 0;
  }

  bounds& of_actor(std::uint16_t actor) {
    if (bounds* known = find_in(bounds_, actor)) return *known;
    const auto all = of_.activities(actor);
    const auto begin = step_ == 0 ? all.begin() : std::ranges::find(all, step_, &trace::event::step);
    const auto first = static_cast<std::size_t>(begin - all.begin());
    return bounds_[actor] = {first, first};
  }

  const causality& of_;
  std::uint64_t step_;
  std::map<std::uint16_t, bounds> bounds_;
  std::vector<const trace::event*> todo_;
};

}  // namespace

cause_chain find_causes(const causality& of, std::uint64_t id) {
  cause_chain chain;
  std::unordered_set<std::uint64_t> seen;  // contradictory records could form a cycle
  do {
    const trace::event* message = record_of(of, id);
    if (message == nullptr || !seen.insert(id).second) {
      chain.missing = id;
      return chain;
    }
    chain.hops.push_back(hop_of(of, *message));
    if (message->step < chain.hops.front().message->step) {
      chain.begins = cause_chain::start::step;
      return chain;
    }
    id = of.trigger(*message);
  } while (id != 0);
  chain.begins = cause_chain::start::actor;
  return chain;
}

influence find_influence(const causality& of, std::uint64_t id) {
  const trace::event* message = record_of(of, id);
  if (message == nullptr) return {id, 0, {}, 0};
  influence_search search(of, message->step);
  const trace::event* last = message;
  if (message->what != trace::kind::handled) {  // begin with the activity that sent it
    last = of.handled(of.trigger(*message));
    const trace::event* sent = of.sent(id);
    if (last == nullptr && sent != nullptr) last = of.activity_at(trace::sender_of(id), sent->begin);
  }
  if (last != nullptr) search.reach(*last);
  search.run();
  return search.result(id);
}

}  // namespace troupe::analysis
