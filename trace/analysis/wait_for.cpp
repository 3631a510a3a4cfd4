#include "trace/analysis/wait_for.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "trace/analysis/lookup.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

class wait_finder {
 public:
  wait_finder(const causality& index, const lost_messages& lost)
      : index_(index), run_(index.run()), lost_(lost), order_(run_), collectives_(index) {
    for (const trace::event& one : run_.events) add(one);
  }

  void add_requests(const trace::actor_state& who) {
    for (const auto& request : who.open) {
      wait_edge next;
      next.who = next.sender = who.actor;
      next.on = next.receiver = request.peer;
      next.is_answer = true;
      next.type = request.type;
      next.message = request.id;
      next.step = request.step;
      next.since = request.since;
      next.in_handler = is_at_work(run_, who.actor) && request.since >= who.message_begin;
      if (const trace::event* handled = index_.handled(request.id)) {
        after_handled(next, *handled);
        continue;
      }
      before_handled(next);
      found_.push_back(next);
    }
  }

  void add_calls(const trace::actor_state& who) {
    const auto me = rank_in(who.name, "trainer");
    if (!me) return;
    for (const auto& call : who.calls)
      for (const std::uint32_t rank : call.what.missing.ranks()) {
        const auto other = order_.trainer(static_cast<std::uint16_t>(rank));
        wait_edge next;
        next.who = next.receiver = who.actor;
        // Trainers have numbers by rank.
        next.on = next.sender = other.value_or(static_cast<std::uint16_t>(who.actor - *me + rank));
        next.step = call.what.step;
        next.since = call.since;
        next.call = &call.what;
        next.type = type_of_part(call.what.kind);
        // Only a pass waits within its handler; for others it is not known whether their results are awaited.
        next.in_handler = call.what.kind == trace::call_kind::meeting && is_at_work(run_, who.actor) &&
                          call.since >= who.message_begin;
        locate_part(next);
        found_.push_back(next);
      }
  }

  std::vector<wait_edge> take() {
    std::ranges::stable_sort(found_, {}, &wait_edge::since);
    return std::move(found_);
  }

 private:
  void add(const trace::event& one) {
    if ((one.what == trace::kind::handled || one.what == trace::kind::arrived) && !one.has(flag::answer)) {
      std::uint64_t& newest = newest_[{one.actor, trace::sender_of(one.id)}];
      newest = std::max(newest, trace::sequence_of(one.id));
    }
    if (one.what == trace::kind::handled && one.type == gradient_) {
      std::uint64_t& last = gradients_[{one.actor, trace::sender_of(one.id)}];
      last = std::max(last, one.step);
      gradient_numbers_[trace::sender_of(one.id)].emplace_back(one.step, trace::sequence_of(one.id));
    }
    if (one.what == trace::kind::arrived && index_.handled(one.id) == nullptr && !is_in_hand(one.actor, one.id))
      queues_[one.actor].push_back(&one);
  }

  bool is_in_hand(std::uint16_t actor, std::uint64_t id) const {
    const trace::actor_state* state = run_.find_actor(actor);
    return state != nullptr && state->message == id && is_at_work(run_, actor);
  }

  bool share_process(std::uint16_t a, std::uint16_t b) const {
    const trace::actor_state *one = run_.find_actor(a), *other = run_.find_actor(b);
    return one != nullptr && other != nullptr && one->process == other->process;
  }

  /// Decides whether the message of `next`, sent and not arrived, is lost or under way. Links and mailboxes keep the
  /// order of one sender's messages.
  void decide_transit(wait_edge& next, trace::nanoseconds sent) const {
    const std::uint64_t* newest = find_in(newest_, {next.receiver, trace::sender_of(next.message)});
    const bool is_overtaken = next.message != 0 && newest != nullptr && *newest > trace::sequence_of(next.message);
    const trace::actor_state* receiver = run_.find_actor(next.receiver);
    const bool is_busy = is_at_work(run_, next.receiver) && receiver->message_begin <= sent;  // so it may be queued
    if (is_overtaken || (!is_busy && lost_.is_overdue(next.receiver, sent)))
      next.state = wait_state::never_arrived;
    else
      next.state = is_busy ? wait_state::queued : wait_state::under_way;
  }

  /// How many messages are in the queue of `actor` that arrived before `when`.
  std::uint64_t in_front(std::uint16_t actor, trace::nanoseconds when) const {
    std::uint64_t count = 0;
    if (const auto* queue = find_in(queues_, actor))
      count = static_cast<std::uint64_t>(
          std::ranges::count_if(*queue, [&](const trace::event* other) { return other->begin < when; }));
    for (const trace::actor_state& other : run_.actors)  // within a process arrivals are not recorded
      for (const auto& request : other.open)
        if (request.peer == actor && request.since < when && share_process(other.actor, actor) &&
            index_.handled(request.id) == nullptr && !is_in_hand(actor, request.id))
          ++count;
    return count;
  }

  bool is_held_back(std::uint64_t id) const {
    return std::ranges::find(lost_.held_back(), id, &trace::event::id) != lost_.held_back().end();
  }

  /// Finds the state of a request that its receiver has not handled yet.
  void before_handled(wait_edge& next) const {
    if (is_in_hand(next.on, next.message)) {
      next.state = wait_state::in_hand;
    } else if (const trace::event* arrived = index_.arrived(next.message)) {
      next.state = wait_state::queued;
      next.behind = in_front(next.on, arrived->begin);
    } else if (is_held_back(next.message)) {
      next.state = wait_state::out_of_credit;
    } else if (const trace::event* sent = index_.sent(next.message)) {
      decide_transit(next, sent->begin);
      next.sent = sent->begin;
    } else if (const auto from = lost_.complete_from(); !share_process(next.who, next.on) &&
                                                        run_.find_actor(next.on) != nullptr && from &&
                                                        *from <= next.since) {
      decide_transit(next, next.since);
    } else {
      next.state = wait_state::queued;
      next.behind = in_front(next.on, next.since);
    }
  }

  /// Finds the state of a request that has been handled, but its answer has not.
  void after_handled(wait_edge& next, const trace::event& handled) {
    const trace::event* answer = lost_.answer_sent(next.message);
    if (answer != nullptr || !handled.has(flag::parked)) return wait_for_answer(next, handled, answer);
    next.state = wait_state::parked;
    const std::string type = run_.type_name(handled.type);
    if (is_any_of<msg::reduce>(type)) return wait_for_ranks(next);
    found_.push_back(next);
    if (is_any_of<msg::lookup>(type))
      wait_for_gradients(handled, order_.needed(handled.step), order_.needed_strictly(handled.step));
    else if (is_any_of<msg::save_module, msg::state_dict, msg::row_digests, msg::parameters>(type))
      wait_for_gradients(handled, handled.step, handled.step);
    else if (is_any_of<msg::gradient_norm, msg::optimizer_step, msg::save_dense>(type))
      wait_for_all(handled);
  }

  /// For a request whose answer was sent and is under way or lost. `answer`: null if it is not recorded, as within a
  /// process.
  void wait_for_answer(wait_edge& next, const trace::event& handled, const trace::event* answer) {
    std::swap(next.sender, next.receiver);
    next.sent = answer != nullptr ? answer->begin : handled.end;
    const bool has_arrived = answer != nullptr && index_.arrived(answer->id) != nullptr;
    const bool is_late = lost_.is_overdue(next.receiver, *next.sent);
    next.state = is_late && !has_arrived ? wait_state::never_arrived : wait_state::under_way;
    if (answer != nullptr) {
      next.message = answer->id;
      next.type = answer->type;
      next.is_answer = false;
    }
    found_.push_back(next);
  }

  void wait_for_ranks(wait_edge& next) {
    const auto collective = next.collective = collectives_.of(next.message);
    if (!collective) return found_.push_back(next);
    if (collective->missing.empty()) {
      next.state = wait_state::incomplete;
      for (const trace::event* one : lost_.never_arrived())
        if (one->aux == next.on && one->step == collective->step && trace::sender_of(one->id) != next.who)
          set_lost(next, *one);
      found_.push_back(next);
    }
    for (const std::uint16_t rank : collective->missing) {
      wait_edge missing = next;
      missing.is_answer = false;
      missing.message = 0;
      missing.state = wait_state::unsent;
      missing.on = missing.sender = order_.trainer(rank).value_or(next.on);
      // The rank may have launched it in another process's group.
      if (const auto elsewhere = collectives_.launched_elsewhere(*collective, rank)) {
        missing.on = missing.sender = *elsewhere;
        const std::uint16_t to = collective->summed_by != 0 ? collective->summed_by : next.on;
        for (const trace::event* one : lost_.never_arrived())
          if (one->actor == *elsewhere && one->aux == to && one->step == collective->step) set_lost(missing, *one);
      }
      found_.push_back(missing);
    }
  }

  void set_lost(wait_edge& next, const trace::event& sent) const {
    next.sent = sent.begin;
    next.sender = sent.actor;
    next.receiver = sent.aux;
    next.message = sent.id;
    decide_transit(next, sent.begin);
    next.type = sent.type;
    next.is_answer = false;
  }

  /// Locates the share, sum or tensor that `next.on` has to send for the call, if it was sent.
  void locate_part(wait_edge& next) const {
    const bool is_receipt = next.call->kind == trace::call_kind::receipt;
    for (const trace::event* one : lost_.never_arrived())
      if (one->actor == next.on && one->aux == next.who && is_part(run_.type_name(one->type), is_receipt))
        return set_lost(next, *one);
    const trace::actor_state* on = run_.find_actor(next.on);
    if (on == nullptr || is_receipt || next.call->lacks_sums != 0) return;
    const auto same = std::ranges::find_if(on->calls, [&](const auto& one) { return one.what.is_same_as(*next.call); });
    if (same == on->calls.end()) return;
    next.sent = same->since;
    next.state = wait_state::under_way;
    if (!share_process(next.who, next.on)) decide_transit(next, same->since);
  }

  std::uint16_t type_of_part(trace::call_kind kind) const {
    const bool is_receipt = kind == trace::call_kind::receipt;
    return (is_receipt ? type_number<msg::peer_tensor>(run_) : type_number<msg::collective_share>(run_)).value_or(0);
  }
  static bool is_part(std::string_view type, bool of_receipt) {
    return of_receipt ? is_any_of<msg::peer_tensor>(type) : is_any_of<msg::collective_share, msg::collective_sum>(type);
  }

  /// The server of the parked `query` waits for gradients up to step `last`; if it has those, up to `strictly`.
  void wait_for_gradients(const trace::event& query, std::uint64_t last, std::uint64_t strictly) {
    const auto have = [&](std::uint16_t trainer) {
      const std::uint64_t* known = find_in(gradients_, {query.actor, trainer});
      return known == nullptr ? 0 : *known;
    };
    const auto lacks_any = [&](std::uint64_t step) {
      return std::ranges::any_of(order_.trainers(), [&](std::uint16_t trainer) { return have(trainer) < step; });
    };
    const std::uint64_t step = lacks_any(last) ? last : strictly;
    for (const std::uint16_t trainer : order_.trainers())
      if (have(trainer) < step)
        wait_for_message(query, trainer, gradient_.value_or(0), have(trainer) == 0 ? step : have(trainer) + 1);
  }

  /// Each trainer has to make the same request as the parked `query`.
  void wait_for_all(const trace::event& query) {
    std::set<std::uint16_t> have;
    for (const trace::event& one : run_.events | of_kind(trace::kind::handled))
      if (one.actor == query.actor && one.type == query.type && one.step == query.step)
        have.insert(trace::sender_of(one.id));
    for (const std::uint16_t trainer : order_.trainers())
      if (!have.contains(trainer)) wait_for_message(query, trainer, query.type, query.step);
  }

  /// The actor that parked `query` waits for that message of `trainer`.
  void wait_for_message(const trace::event& query, std::uint16_t trainer, std::uint16_t type, std::uint64_t step) {
    wait_edge next;
    next.who = next.receiver = query.actor;
    next.on = next.sender = trainer;
    next.type = type;
    next.step = step;
    next.since = query.begin;
    locate(next);
    const auto same = std::ranges::find_if(found_, [&](const wait_edge& other) {
      return !other.is_answer && other.who == next.who && other.on == next.on && other.type == next.type;
    });
    if (same == found_.end())
      found_.push_back(next);
    else if (next.since < same->since)
      *same = next;
  }

  /// Locates the message that `next.who` waits for, if it was sent.
  void locate(wait_edge& next) const {
    if (const auto* queue = find_in(queues_, next.who))
      for (const trace::event* one : *queue)
        if (trace::sender_of(one->id) == next.on && one->type == next.type && one->step == next.step) {
          next.state = wait_state::queued;
          next.message = one->id;
          next.behind = in_front(next.who, one->begin);
          return;
        }
    for (const trace::event* one : lost_.held_back()) {
      const trace::event* sent = index_.sent(one->id);
      const bool is_it = sent == nullptr || (sent->type == next.type && sent->aux == next.who);
      if (is_it && trace::sender_of(one->id) == next.on && one->step == next.step) {
        next.state = wait_state::out_of_credit;
        next.message = one->id;
        return;
      }
    }
    if (const trace::event* sent = lost_.find(next.on, next.who, next.type, next.step))
      set_lost(next, *sent);
    else if (const auto number = lost_number(next)) {
      next.message = *number;
      decide_transit(next, next.since);
    }
  }

  /// The id of a message that its sender must have sent, because it has reached later steps.
  std::optional<std::uint64_t> lost_number(const wait_edge& next) const {
    if (next.type != gradient_ || is_at_work(run_, next.on) || !is_further(next)) return {};
    std::uint64_t low = 0;
    std::uint64_t high = UINT64_MAX;
    std::uint64_t near = 0;  // one to another server
    if (const auto* numbers = find_in(gradient_numbers_, next.on))
      for (const auto& [step, number] : *numbers) {
        if (step < next.step) low = std::max(low, number);
        if (step > next.step) high = std::min(high, number);
        if (step == next.step) near = number;
      }
    std::vector<std::uint64_t> unknown = lost_.unaccounted(next.on);
    std::erase_if(unknown, [&](std::uint64_t number) { return number <= low || number >= high; });
    if (unknown.empty()) return {};
    const auto distance = [&](std::uint64_t number) { return number > near ? number - near : near - number; };
    const std::uint64_t number = near == 0 ? unknown.front() : *std::ranges::min_element(unknown, {}, distance);
    return std::uint64_t{next.on} << 48 | number;
  }

  bool is_further(const wait_edge& next) const {
    const trace::actor_state* state = run_.find_actor(next.on);
    if (state == nullptr) return false;
    if (state->step > next.step) return true;
    const auto* numbers = find_in(gradient_numbers_, next.on);
    if (numbers != nullptr &&
        std::ranges::any_of(*numbers, [&](const auto& known) { return known.first >= next.step; }))
      return true;
    return std::ranges::any_of(state->open, [&](const trace::actor_state::request& open) {
      const std::string type = run_.type_name(open.type);
      return (is_any_of<msg::reduce>(type) && open.step >= next.step) ||
             (is_any_of<msg::lookup>(type) && open.step > next.step + order_.lookahead());
    });
  }

  const causality& index_;
  const trace::recording& run_;
  const lost_messages& lost_;
  const training_order order_;
  const std::optional<std::uint16_t> gradient_ = type_number<msg::gradient>(run_);
  const open_collectives collectives_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t> gradients_;  ///< (server, trainer): the last step
  /// By trainer: step and sequence number of each gradient that was handled.
  std::map<std::uint16_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> gradient_numbers_;
  /// (receiver, sender): the highest sequence number that arrived, answers aside.
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::uint64_t> newest_;
  std::map<std::uint16_t, std::vector<const trace::event*>> queues_;  ///< by actor: arrived and not begun
  std::vector<wait_edge> found_;
};

}  // namespace

std::string_view name_of(wait_state what) {
  constexpr std::array<std::string_view, 8> names = {"unsent", "under way",     "never arrived", "out of credit",
                                                     "queued", "being handled", "parked",        "incomplete"};
  return names.at(static_cast<std::size_t>(what));
}

bool is_at_work(const trace::recording& run, std::uint16_t actor) {
  const trace::actor_state* state = run.find_actor(actor);
  return state != nullptr && state->alive && state->message_begin >= 0;
}

std::vector<wait_edge> find_waits(const causality& index, const lost_messages& lost,
                                  const std::set<std::uint32_t>& dead) {
  const trace::recording& run = index.run();
  wait_finder finder(index, lost);
  for (const trace::actor_state& actor : run.actors) {
    if (dead.contains(actor.process) || run.processes[actor.process].end == trace::ending::clean) continue;
    if (!actor.alive && run.processes[actor.process].end == trace::ending::none) continue;
    finder.add_requests(actor);
    finder.add_calls(actor);
  }
  std::vector<wait_edge> found = finder.take();
  std::erase_if(found, [&](const wait_edge& one) {
    const trace::actor_state* who = run.find_actor(one.who);
    return who != nullptr && dead.contains(who->process);
  });
  return found;
}

}  // namespace troupe::analysis
