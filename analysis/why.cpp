#include "analysis/why.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "analysis/lookup.hpp"

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

}  // namespace

cause_chain find_causes(const causality& of, std::uint64_t id) {
  cause_chain chain;
  std::unordered_set<std::uint64_t> seen;  // records that contradict each other could make a circle
  std::uint64_t step = 0;
  while (true) {
    const trace::event* message = record_of(of, id);
    if (message == nullptr || !seen.insert(id).second) {
      chain.missing = id;
      return chain;
    }
    chain.hops.push_back(hop_of(of, *message));
    if (chain.hops.size() == 1) step = message->step;
    if (message->step < step) {
      chain.begins = cause_chain::start::step;
      return chain;
    }
    id = of.trigger(*message);
    if (id == 0) {
      chain.begins = cause_chain::start::actor;
      return chain;
    }
  }
}

namespace {

/// How far the cone reaches, actor by actor: a cone holds all that an actor did between two places.
class cone_search {
 public:
  cone_search(const causality& of, std::uint64_t step) : of_(of), step_(step) {}

  void reach(const trace::event& activity) {
    bounds& actor = of_actor(activity.actor);
    const std::size_t place = of_.place(activity);
    if (place < actor.end) return;  // already in it, or of an earlier step
    const std::size_t from = actor.end;
    actor.end = place + 1;
    for (std::size_t i = from; i <= place; ++i) todo_.push_back(of_.activities(activity.actor)[i]);
  }

  void run() {
    while (!todo_.empty()) {
      const trace::event* one = todo_.back();
      todo_.pop_back();
      if (one->what != trace::kind::handled) continue;
      const trace::event* sender = of_.sent_in(*one);
      // Where the sender's records do not tell in which activity it was sent: what it had done until then.
      if (sender == nullptr) sender = of_.activity_at(trace::sender_of(one->id), one->sent);
      if (sender != nullptr && sender != one) reach(*sender);
    }
  }

  influence result(std::uint64_t id) const {
    influence cone{id, step_, {}, 0};
    for (const auto& [actor, places] : bounds_) {
      influence::part part{actor, {}, places.begin == 0 && overwritten(actor)};
      for (std::size_t i = places.end; i > places.begin; --i) {
        const trace::event* one = of_.activities(actor)[i - 1];
        if (one->what == trace::kind::handled && one->id != id) part.messages.push_back(one);
      }
      cone.messages += part.messages.size();
      if (!part.messages.empty()) cone.actors.push_back(std::move(part));
    }
    return cone;
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
    std::size_t first = 0;
    if (step_ != 0) {
      while (first < all.size() && all[first]->step != step_) ++first;
    }
    return bounds_[actor] = {first, first};
  }

  const causality& of_;
  std::uint64_t step_;
  std::map<std::uint16_t, bounds> bounds_;
  std::vector<const trace::event*> todo_;
};

}  // namespace

influence find_influence(const causality& of, std::uint64_t id) {
  const trace::event* message = record_of(of, id);
  if (message == nullptr) return {id, 0, {}, 0};
  cone_search search(of, message->step);
  const trace::event* last = message;
  if (message->what != trace::kind::handled) {  // what its sender was at
    last = of.handled(of.trigger(*message));
    const trace::event* sent = of.sent(id);
    if (last == nullptr && sent != nullptr) last = of.activity_at(trace::sender_of(id), sent->begin);
  }
  if (last != nullptr) search.reach(*last);
  search.run();
  return search.result(id);
}

}  // namespace troupe::analysis
