#include "trace/analysis/blocked.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "trace/analysis/blocked_sentences.hpp"
#include "trace/analysis/lasting_waits.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::analysis {

namespace {

/// As in `12:03:04.5 UTC`.
std::string time_of_day(const trace::recording& run, trace::nanoseconds when) {
  constexpr std::int64_t ns_per_second = 1'000'000'000;
  const std::int64_t ns = run.realtime_begin_ns + when;
  return fmt::format("{:%T}.{} UTC", fmt::gmtime(ns / ns_per_second), ns % ns_per_second / (ns_per_second / 10));
}

class blockage_finder {
 public:
  blockage_finder(const trace::recording& run, const trace::recording* before)
      : run_(run), before_(before), now_(run.end()), index_(run), lost_(index_), text_(run, made_.waits) {}

  blocked_report report() {
    deaths_ = find_deaths(run_);
    std::set<std::uint32_t> dead;
    // Later deaths follow from the first, and the waits of these actors help to explain it.
    if (!deaths_.empty() && !deaths_.front().actor) dead.insert(deaths_.front().process);
    made_.waits = find_waits(index_, lost_, dead);
    if (before_ != nullptr) keep_lasting(dead);
    for (const wait_edge& one : made_.waits) from_[one.who].push_back(&one);
    decide();
    report_more();
    return std::move(made_);
  }

 private:
  void keep_lasting(const std::set<std::uint32_t>& dead) {
    const causality index(*before_);
    const progress since(*before_, run_);
    made_.waits = lasting_waits(std::move(made_.waits), find_waits(index, lost_messages(index), dead), since);
    made_.handled = since.handled();
  }

  bool has_ended(std::uint16_t actor) const {
    const trace::actor_state* state = run_.find_actor(actor);
    if (state == nullptr) return false;
    if (!deaths_.empty() && !deaths_.front().actor && state->process == deaths_.front().process) return true;
    return !state->alive && run_.processes[state->process].end == trace::ending::none;
  }

  /// Why the chain of waits ends with `one`; none: it continues with the waits of `one.on`.
  blockage end_at(const wait_edge& one) const {
    if (one.state == wait_state::never_arrived) return blockage::never_arrived;
    if (one.state == wait_state::out_of_credit) return blockage::credits_exhausted;
    if (one.state == wait_state::incomplete && !is_at_work(run_, one.on)) return blockage::incomplete;
    if (one.collective && one.collective->skipped) return blockage::ranks_missing;
    if (has_ended(one.on)) return blockage::dead;
    if (is_at_work(run_, one.on)) {
      const trace::nanoseconds busy = now_ - run_.find_actor(one.on)->message_begin;
      const bool most_of_it_queued = busy < (now_ - one.since) / 2;
      return one.state == wait_state::queued && one.behind > 0 && most_of_it_queued ? blockage::queued
                                                                                    : blockage::handler_running;
    }
    if (from_.contains(one.on) || one.state == wait_state::under_way) return blockage::none;
    if (run_.find_actor(one.on) == nullptr) return blockage::none;  // its files are not here
    return one.collective || one.call != nullptr ? blockage::ranks_missing : blockage::idle;
  }

  void follow(std::uint16_t from, std::uint16_t waiter, std::set<std::uint16_t>& seen) {
    if (!seen.insert(from).second || is_at_work(run_, from)) return;
    const auto* waits = find_in(from_, from);
    if (waits == nullptr) return;
    for (const wait_edge* one : *waits) {
      const blockage end = end_at(*one);
      if (end == blockage::none) {
        if (one->state != wait_state::under_way) follow(one->on, waiter, seen);
        continue;
      }
      // All actors that wait for one actor count together; each missing message or rank counts by itself.
      const bool by_actor = end == blockage::handler_running || end == blockage::idle || end == blockage::dead;
      const auto same = std::ranges::find_if(ends_, [&](const end_of_chain& known) {
        return known.what == end && (by_actor ? known.last->on == one->on : known.last == one);
      });
      end_of_chain& found = same == ends_.end() ? ends_.emplace_back(end_of_chain{end, one, {}}) : *same;
      found.waiters.insert(waiter);
      if (one->since < found.last->since) found.last = one;
    }
  }

  /// Whether `one` can be part of a cycle: an actor whose handler still runs is blocked only if that handler waits.
  bool may_lock(const wait_edge& one) const {
    if (one.state == wait_state::in_hand) return is_asking(one.on);
    if (one.state != wait_state::unsent && one.state != wait_state::queued && one.state != wait_state::parked)
      return false;
    return !is_at_work(run_, one.who) || one.in_handler;
  }
  bool is_asking(std::uint16_t actor) const {
    const auto* waits = find_in(from_, actor);
    return waits != nullptr && std::ranges::any_of(*waits, &wait_edge::in_handler);
  }

  /// The shortest cycle of waits from `first` back to itself; empty: none.
  std::vector<const wait_edge*> cycle_from(std::uint16_t first) const {
    std::map<std::uint16_t, const wait_edge*> came_by;
    std::queue<std::uint16_t> next({first});
    for (; !next.empty(); next.pop()) {
      const auto* waits = find_in(from_, next.front());
      if (waits == nullptr) continue;
      for (const wait_edge* one : *waits) {
        if (!may_lock(*one) || !came_by.emplace(one->on, one).second) continue;
        if (one->on != first) {
          next.push(one->on);
          continue;
        }
        std::vector<const wait_edge*> cycle = {one};
        while (cycle.back()->who != first) cycle.push_back(came_by.at(cycle.back()->who));
        std::ranges::reverse(cycle);
        return cycle;
      }
    }
    return {};
  }

  std::vector<const wait_edge*> find_cycle() const {
    std::vector<const wait_edge*> shortest;
    for (const auto& [actor, waits] : from_) {
      std::vector<const wait_edge*> cycle = cycle_from(actor);
      if (!cycle.empty() && (shortest.empty() || cycle.size() < shortest.size())) shortest = std::move(cycle);
    }
    return shortest;
  }

  void decide() {
    for (const auto& [actor, waits] : from_) {
      std::set<std::uint16_t> seen;
      follow(actor, actor, seen);
    }
    const std::vector<const wait_edge*> cycle = find_cycle();
    const auto worst = std::ranges::min_element(ends_, {}, [](const end_of_chain& end) {
      const auto waiters = static_cast<std::int64_t>(end.waiters.size());
      return std::tuple(std::min(end.what, blockage::queued), order_of(end), -waiters, end.last->since);
    });
    if (!deaths_.empty())
      say_dead(deaths_.front());
    else if (const auto stopped = std::ranges::find(run_.processes, true, &trace::process_info::stopped);
             stopped != run_.processes.end())
      say_stopped(static_cast<std::uint32_t>(stopped - run_.processes.begin()));
    else if (!cycle.empty() && (worst == ends_.end() || worst->what > blockage::cycle))
      say_cycle(cycle);
    else if (worst != ends_.end())
      say(*worst);
    else
      say_nothing();
  }

  /// The first open collective is the reason for the others. The step counts first: groups number collectives as first
  /// shares arrive, so the numbers differ between groups if a rank has left one out.
  static std::pair<std::uint64_t, std::uint64_t> order_of(const wait_edge& one) {
    if (one.call != nullptr) return {one.call->step, one.call->number};
    return {one.collective->step, one.collective->sequence};
  }
  static std::pair<std::uint64_t, std::uint64_t> order_of(const end_of_chain& end) {
    const bool is_collective = end.last->collective || end.last->call != nullptr;
    if (!is_collective || (end.what != blockage::ranks_missing && end.what != blockage::incomplete)) return {};
    return order_of(*end.last);
  }

  /// A smaller value is more likely the call that all should have made: more trainers have made it, or its step is
  /// earlier.
  static std::pair<std::int64_t, std::uint64_t> doubt_of(const wait_edge& one) {
    const std::size_t callers =
        one.call != nullptr ? one.call->members.count() - one.call->missing.count() : one.collective->launched;
    return {-static_cast<std::int64_t>(callers), order_of(one).first};
  }

  /// Whether `call` is more likely the reason than `other`. A receiver joins no bucket before its tensor arrives, and
  /// nothing else would hold up a bucket of that step or of a later one.
  static bool comes_before(const wait_edge& call, const wait_edge& other) {
    if (call.call->kind == trace::call_kind::receipt && other.call == nullptr)
      return order_of(call).first <= order_of(other).first;
    return doubt_of(call) < doubt_of(other);
  }

  /// Returns which of the collectives and calls of a cycle all others wait for: the first collective of an optimizer
  /// step, or else the call with the least doubt; null if that is not certain.
  static const wait_edge* first_of(const std::vector<const wait_edge*>& cycle) {
    const wait_edge* first = nullptr;
    for (const wait_edge* one : cycle)
      if (one->collective && !one->is_answer && (first == nullptr || order_of(*one) < order_of(*first))) first = one;
    bool is_certain = true;
    for (const wait_edge* one : cycle) {
      if (one->call == nullptr) continue;
      if (first == nullptr || comes_before(*one, *first)) {
        first = one;
        is_certain = true;
      } else if (doubt_of(*one) == doubt_of(*first) &&
                 (first->call == nullptr || !first->call->is_same_as(*one->call))) {
        is_certain = false;
      }
    }
    return is_certain ? first : nullptr;
  }

  /// The server, trainer or master of the process.
  std::optional<std::uint16_t> main_actor(std::uint32_t process) const {
    for (const trace::actor_state& actor : run_.actors)
      if (actor.process == process && is_main_actor(actor)) return actor.actor;
    return std::nullopt;
  }

  void say_stopped(std::uint32_t process) {
    made_.what = blockage::stopped;
    made_.root = main_actor(process);
    const std::uint32_t pid = run_.processes[process].pid;
    made_.verdict = fmt::format("{} is stopped by a signal or a debugger; 'kill -CONT {}' lets it continue",
                                name_of(run_, death{process, {}, 0, 0}), pid);
  }

  /// Why the run has failed, as a process has recorded it; empty: none has.
  std::string error_of_run() const {
    for (const trace::process_info& one : run_.processes)
      if (std::string text = text_at(one.metadata, trace::error_key); !text.empty()) return text;
    return {};
  }

  /// An actor that has ended with an error may only have found another one's fault.
  void say_dead(const death& first) {
    made_.what = blockage::dead;
    constexpr std::size_t longest = 4000;
    if (const std::string why = error_of_run(); first.actor && !why.empty()) {
      made_.verdict = fmt::format("the run has ended with an error: {}", printable(why, longest));
      return;
    }
    made_.root = first.actor ? first.actor : main_actor(first.process);
    made_.verdict = fmt::format("{} has been dead since {}", name_of(run_, first), time_of_day(run_, first.when));
    if (first.actor) made_.verdict += fmt::format(": it ended with error {}", first.code);
  }

  void say_cycle(const std::vector<const wait_edge*>& cycle) {
    for (const wait_edge* one : cycle) made_.cycle.push_back(one->who);
    if (const wait_edge* const first = first_of(cycle)) return say({blockage::ranks_missing, first, {}});
    made_.what = blockage::cycle;
    std::vector<std::string> text;
    for (const wait_edge* one : cycle)
      add_line(text, "{} waits for {} ({})", run_.actor_name(one->who), run_.actor_name(one->on),
               subject_of(run_, *one));
    made_.verdict = fmt::format("cycle of {}: {}", cycle.size(), fmt::join(text, ", "));
  }

  void say(const end_of_chain& end) {
    const bool is_of_message = end.what == blockage::never_arrived || end.what == blockage::credits_exhausted;
    made_.what = end.what;
    made_.root = is_of_message ? end.last->sender : end.last->on;
    made_.verdict = text_.of(end);
  }

  void say_nothing() {
    if (has_ended_cleanly(run_)) {
      made_.verdict = "nothing is blocked: the run has ended as it should";
      return;
    }
    if (made_.handled > 0) {
      made_.verdict =
          fmt::format("the run continues: {} messages were handled while it was looked at", count_text(made_.handled));
      return;
    }
    const auto unknown =
        std::ranges::find_if(made_.waits, [this](const wait_edge& one) { return run_.find_actor(one.on) == nullptr; });
    if (unknown != made_.waits.end()) {
      made_.verdict = fmt::format(
          "no blockage is certain: {} waits for {} ({}), of which nothing is recorded here; name the "
          "recordings of all hosts",
          run_.actor_name(unknown->who), run_.actor_name(unknown->on), subject_of(run_, *unknown));
      return;
    }
    const auto flying = std::ranges::find(made_.waits, wait_state::under_way, &wait_edge::state);
    made_.verdict =
        flying == made_.waits.end()
            ? "nothing is blocked: no actor waits"
            : fmt::format("no blockage is certain: {} was under way from {} to {}{}", subject_of(run_, *flying),
                          run_.actor_name(flying->sender), run_.actor_name(flying->receiver),
                          flying->sent ? fmt::format(" for {}", time_text(now_ - *flying->sent)) : "");
  }

  void report_more() {
    std::set<std::string> later;
    for (const death& one : deaths_)
      if (one.process != deaths_.front().process) later.insert(name_of(run_, one));
    if (!later.empty()) add_line(made_.details, "ended later: {}", fmt::join(later, ", "));
    for (const trace::actor_state& actor : run_.actors)
      if (is_at_work(run_, actor.actor) && !has_ended(actor.actor))
        add_line(made_.details, "{}: {}", actor.name, text_.work_of(actor.actor));
    std::set<std::uint16_t> listed_ranks;
    for (const wait_edge& one : made_.waits)
      if (one.collective && !one.is_answer && listed_ranks.insert(one.on).second)
        if (const trace::actor_state* on = run_.find_actor(one.on))
          add_line(made_.details, "{} is at step {}{}", on->name, on->step,
                   one.collective->skipped ? "; a later collective has its share" : "");
    constexpr std::size_t listed_max = 5;
    std::size_t listed = 0;
    for (const trace::event* one : lost_.never_arrived())
      if (made_.handled == 0 && listed++ < listed_max && lost_.is_overdue(one->aux, one->begin))
        add_line(made_.details, "sent, never arrived: {} ({}, step {}) for {}", run_.message_name(one->id),
                 run_.type_name(one->type), one->step, run_.actor_name(one->aux));
    if (!lost_.complete_from())
      made_.details.emplace_back("a filter left records out: what they would show counts as not having happened");
    else if (*lost_.complete_from() > 0)
      add_line(made_.details, "rings keep only the last records: all is there for the last {}",
               time_text(now_ - *lost_.complete_from()));
  }

  const trace::recording& run_;
  const trace::recording* before_;
  const trace::nanoseconds now_;
  const causality index_;
  const lost_messages lost_;
  std::vector<death> deaths_;
  std::map<std::uint16_t, std::vector<const wait_edge*>> from_;  ///< by the actor that waits
  std::vector<end_of_chain> ends_;
  blocked_report made_;
  const blocked_sentences text_;
};

}  // namespace

namespace {

/// Without names of messages and actors no wait can be described.
std::optional<blocked_report> unreadable_report(const trace::recording& run) {
  const auto unreadable = run.unreadable_metadata();
  if (!unreadable) return std::nullopt;
  blocked_report made;
  made.verdict = fmt::format("it is unknown whether the run is blocked: {}", *unreadable);
  return made;
}

}  // namespace

blocked_report find_blocked(const trace::recording& run) {
  if (auto unreadable = unreadable_report(run)) return std::move(*unreadable);
  return blockage_finder(run, nullptr).report();
}

blocked_report find_blocked(const trace::recording& before, const trace::recording& run) {
  if (auto unreadable = unreadable_report(run)) return std::move(*unreadable);
  return blockage_finder(run, &before).report();
}

trace::nanoseconds blocked_for(const trace::recording& run, const blocked_report& report) {
  if (report.what == blockage::handler_running && report.root && is_at_work(run, *report.root))
    return run.end() - run.find_actor(*report.root)->message_begin;
  std::optional<trace::nanoseconds> newest;
  for (const wait_edge& wait : report.waits)
    if (!report.root || wait.on == *report.root) newest = std::max(newest.value_or(wait.since), wait.since);
  return newest ? std::max<trace::nanoseconds>(run.end() - *newest, 0) : 0;
}

}  // namespace troupe::analysis
