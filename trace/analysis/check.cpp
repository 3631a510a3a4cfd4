#include "trace/analysis/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "trace/analysis/causality.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/lost_messages.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

class checker {
 public:
  explicit checker(const trace::recording& run) : run_(run), order_(run), index_(run), lost_(index_) {
    for (const trace::event& one : run.events)
      if (is_apply(one)) applies_[one.actor].push_back(&one);
  }

  check_report report() {
    made_.invariants = {sender_order(),    gradient_once(),       apply_once(),        committed_rows(),
                        staleness_bound(), credit_not_negative(), requests_answered(), begin_after_arrival()};
    add_notes();
    return std::move(made_);
  }

 private:
  template <class... T>
  static void violate(invariant& of, fmt::format_string<T...> form, T&&... values) {
    if (++of.violations <= violations_listed) add_line(of.first, form, std::forward<T>(values)...);
  }

  auto handled() const { return run_.events | of_kind(trace::kind::handled); }
  std::string name(std::uint16_t actor) const { return run_.actor_name(actor); }
  bool is_filtered() const { return !lost_.complete_from(); }
  /// Whether no record is missing from `when` on.
  bool is_complete_from(trace::nanoseconds when) const {
    return lost_.complete_from() && when >= *lost_.complete_from();
  }

  invariant sender_order() const {
    invariant made{"sender_order", "each receiver handles a sender's messages in the order of their numbers"};
    std::map<std::tuple<std::uint16_t, std::uint16_t, bool>, std::uint64_t> last;
    for (const trace::event& one : handled()) {
      if (trace::sender_of(one.id) == trace::client_actor) continue;  // all clients share one actor number
      std::uint64_t& before = last[{one.actor, trace::sender_of(one.id), one.has(flag::answer)}];
      const std::uint64_t now = trace::sequence_of(one.id);
      if (before != 0) {
        ++made.cases;
        if (now <= before)
          violate(made, "{} handled {} ({}) {} #{}", name(one.actor), run_.message_name(one.id),
                  run_.type_name(one.type), now == before ? "twice, after" : "after", before);
      }
      before = std::max(before, now);
    }
    return made;
  }

  invariant gradient_once() const {
    invariant made{"gradient_once",
                   "a server handles one gradient of each trainer for each step, before it applies it"};
    std::map<std::pair<std::uint16_t, std::uint16_t>, std::map<std::uint64_t, std::vector<const trace::event*>>> all;
    for (const trace::event& one : handled())
      if (one.type == gradient_) all[{one.actor, trace::sender_of(one.id)}][one.step].push_back(&one);
    for (const auto& [who, steps] : all) {
      const auto& [server, trainer] = who;
      for (const auto& [step, some] : steps) {
        ++made.cases;
        if (some.size() > 1)
          violate(made, "{} handled {} gradients of {} for step {}: {} and {}", name(server), some.size(),
                  name(trainer), step, run_.message_name(some[0]->id), run_.message_name(some[1]->id));
        const bool leaves_out = step != steps.begin()->first && !steps.contains(step - 1);
        if (leaves_out && is_complete_from(some[0]->begin))
          violate(made, "{} handled no gradient of {} for step {}, but one for step {}", name(server), name(trainer),
                  step - 1, step);
      }
    }
    if (is_filtered()) made.note = "a filter left records out: not checked whether any is missing";
    if (!order_.staleness()) return made;
    for (const auto& [server, applied] : applies_)
      for (const trace::event* apply : applied) {
        if (!is_complete_from(apply->begin) || !has_all_before(server, apply->step) || is_in_hand(*apply)) continue;
        for (const std::uint16_t trainer : order_.trainers()) {
          ++made.cases;
          const auto* gradients = find_in(all[{server, trainer}], apply->step);
          if (gradients == nullptr || gradients->front()->begin > apply->end)
            violate(made, "{} applied step {} without the gradient of {}", name(server), apply->step, name(trainer));
        }
      }
    return made;
  }

  /// Whether all messages that led to `step` at `server` are recorded: it applied a step well before, and from then on
  /// no record is missing.
  bool has_all_before(std::uint16_t server, std::uint64_t step) const {
    if (lost_.complete_from() == trace::nanoseconds{0}) return true;
    constexpr std::uint64_t margin = 2;  // gradients of one step come while the previous one is under way
    return std::ranges::any_of(applies_.at(server), [&](const trace::event* one) {
      return one->step + margin + order_.lookahead() <= step && is_complete_from(one->begin);
    });
  }

  bool is_live(const trace::event& one) const { return run_.processes[one.process].alive.value_or(false); }

  /// Whether the message that `apply` belongs to was still being handled, and so has no record yet. A live server may
  /// have begun another message between the reading of its records and of its state.
  bool is_in_hand(const trace::event& apply) const {
    if (is_live(apply) && &apply == applies_.at(apply.actor).back()) return true;
    const trace::actor_state* server = run_.find_actor(apply.actor);
    return server != nullptr && server->message_begin >= 0 && server->message_begin <= apply.begin;
  }

  invariant apply_once() const {
    invariant made{"apply_once", "a server applies each optimizer step once, in order"};
    if (!order_.staleness()) {
      made.note = "not checked: consistency async applies a step in parts";
      return made;
    }
    for (const auto& [server, applied] : applies_) {
      std::set<std::uint64_t> seen;
      for (const trace::event* apply : applied) {
        const std::uint64_t now = order_.optimizer_step(apply->step);
        ++made.cases;
        if (!seen.insert(now).second)
          violate(made, "{} applied step {} twice", name(server), apply->step);
        else if (now != *seen.begin() && !seen.contains(now - 1) && is_complete_from(apply->begin))
          violate(made, "{} applied step {} without the one before it", name(server), apply->step);
      }
    }
    return made;
  }

  invariant committed_rows() const {
    invariant made{"committed_rows", "rows were sent after the server had applied all steps that they do not lack"};
    if (!order_.staleness()) {
      made.note = "not checked: consistency async applies a step in parts";
      return made;
    }
    // When each apply ended, by server and optimizer step.
    std::map<std::uint16_t, std::map<std::uint64_t, trace::nanoseconds>> done;
    for (const auto& [server, applied] : applies_)
      for (const trace::event* apply : applied) done[server].emplace(order_.optimizer_step(apply->step), apply->end);
    for (const trace::event& one : handled()) {
      const std::uint64_t before = order_.optimizer_step(one.step);
      if (one.type != rows_ || before <= std::uint64_t{1} + one.aux) continue;
      const std::uint64_t needed = before - 1 - one.aux;
      const std::uint16_t server = trace::sender_of(one.id);
      const auto* steps = find_in(done, server);
      if (steps == nullptr || steps->begin()->first > needed) continue;  // applied before the recording began
      const trace::nanoseconds* applied = find_in(*steps, needed);
      if (applied == nullptr && !is_complete_from(one.sent)) continue;
      if (applied == nullptr && was_read_before(server, one.sent)) continue;
      ++made.cases;
      const trace::nanoseconds slack = run_.processes[one.process].clock_error;
      if (applied == nullptr)
        violate(made, "{} sent {} rows for step {}, which lack {} steps, and has not applied optimizer step {}",
                name(server), run_.message_name(one.id), one.step, one.aux, needed);
      else if (one.sent + slack < *applied)
        violate(made, "{} sent {} rows for step {} before it had applied optimizer step {}", name(server),
                run_.message_name(one.id), one.step, needed);
    }
    return made;
  }

  /// Whether the records of a live server had been read when it sent a message: processes are read one after the other.
  bool was_read_before(std::uint16_t server, trace::nanoseconds sent) const {
    const auto found = applies_.find(server);
    if (found == applies_.end()) return false;
    const trace::event& newest = *found->second.back();
    return is_live(newest) && newest.end <= sent;
  }

  invariant staleness_bound() const {
    invariant made{"staleness_bound", "rows lack no more optimizer steps than the job allows"};
    const auto allowed = order_.staleness();
    if (!allowed) {
      made.note = "not checked: consistency async sets no bound";
      return made;
    }
    made.rule = fmt::format("rows lack at most {} optimizer steps", *allowed);
    for (const trace::event& one : handled()) {
      if (one.type != rows_) continue;
      ++made.cases;
      if (one.aux > *allowed)
        violate(made, "{} for {}, step {}, lack {} optimizer steps", run_.message_name(one.id), name(one.actor),
                one.step, one.aux);
    }
    return made;
  }

  invariant credit_not_negative() const {
    invariant made{"credit_not_negative", "no more credit comes back than was given"};
    for (const trace::event& one : run_.events | of_kind(trace::kind::credit, trace::kind::credit_wait)) {
      ++made.cases;
      if (static_cast<std::int64_t>(one.raw) < 0)
        violate(made, "node {}: {} bytes under way to node {} after {} bytes came back",
                run_.processes[one.process].node, static_cast<std::int64_t>(one.raw), one.aux, one.bytes);
    }
    return made;
  }

  invariant requests_answered() const {
    invariant made{"requests_answered", "every request was answered or failed"};
    if (is_filtered() || !is_clean_) {
      made.note =
          is_filtered() ? "not checked: a filter left records out" : "not checked: the run has not ended cleanly";
      return made;
    }
    std::set<std::uint64_t> answered;
    for (const trace::event& one : handled())
      if (one.has(flag::answer)) answered.insert(one.cause);
    std::set<std::uint16_t> types;  // of requests whose answers are recorded
    for (const trace::event& one : handled())
      if (one.has(flag::request) && answered.contains(one.id)) types.insert(one.type);
    for (const trace::event& one : run_.events) {
      const bool is_handled = one.what == trace::kind::handled;
      if (!one.has(flag::request) || !(is_handled || one.what == trace::kind::sent) || !is_complete_from(one.begin))
        continue;
      if (!is_handled && index_.handled(one.id) != nullptr) continue;
      const bool is_open = is_handled && one.has(flag::parked) && types.contains(one.type);
      ++made.cases;
      if ((is_handled && !is_open) || one.has(flag::refused) || answered.contains(one.id) ||
          lost_.answer_sent(one.id) != nullptr || is_left_open(one.id))
        continue;
      violate(made, "{} ({}, step {}) was {} by {} and never answered", run_.message_name(one.id),
              run_.type_name(one.type), one.step, is_handled ? "parked" : "sent", name(one.actor));
    }
    return made;
  }

  /// Whether the sender of the request ended while it still waited.
  bool is_left_open(std::uint64_t id) const {
    const trace::actor_state* asker = run_.find_actor(trace::sender_of(id));
    if (asker == nullptr) return true;
    return !asker->alive && (asker->open_more > 0 ||
                             std::ranges::find(asker->open, id, &trace::actor_state::request::id) != asker->open.end());
  }

  invariant begin_after_arrival() const {
    invariant made{"begin_after_arrival", "messages are sent, then arrive, then are begun, then ended"};
    for (const trace::event& one : handled()) {
      const trace::actor_state* sender = run_.find_actor(trace::sender_of(one.id));
      const trace::process_info& to = run_.processes[one.process];
      const trace::process_info& from = sender == nullptr ? to : run_.processes[sender->process];
      const bool is_one_clock = from.boot == to.boot;
      const trace::nanoseconds slack = is_one_clock ? 0 : from.clock_error + to.clock_error;
      ++made.cases;
      const bool is_known = is_one_clock || (from.clock_aligned && to.clock_aligned);
      if (one.begin < one.arrived || one.end < one.begin || (is_known && one.arrived + slack < one.sent))
        violate(made, "{} ({}): sent {}, arrived {}, begun {}, ended {} ns", run_.message_name(one.id),
                run_.type_name(one.type), one.sent, one.arrived, one.begin, one.end);
    }
    if (!std::ranges::all_of(run_.processes, &trace::process_info::clock_aligned))
      made.note = "clocks of some hosts could not be aligned: not checked between them";
    return made;
  }

  void add_notes() {
    if (const std::uint64_t overwritten = total(run_, &trace::process_info::overwritten); overwritten > 0)
      add_line(made_.notes, "about {} records are missing: what they would show is not checked", overwritten);
    if (const std::uint64_t dropped = total(run_, &trace::process_info::dropped); dropped > 0)
      add_line(made_.notes, "a filter left {} records out", dropped);
    if (!is_clean_) made_.notes.emplace_back("not all processes ended cleanly: what was under way counts as such");
  }

  const trace::recording& run_;
  const training_order order_;
  const causality index_;
  const lost_messages lost_;
  const bool is_clean_ = has_ended_cleanly(run_);
  const std::optional<std::uint16_t> gradient_ = type_number<msg::gradient>(run_);
  const std::optional<std::uint16_t> rows_ = type_number<msg::rows>(run_);
  std::map<std::uint16_t, std::vector<const trace::event*>> applies_;  ///< by server
  check_report made_;
};

}  // namespace

check_report check(const trace::recording& run) { return checker(run).report(); }

}  // namespace troupe::analysis
