// Recordings of stuck runs.

#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/trace/made_recording.hpp"
#include "trace/analysis/blocked.hpp"

namespace troupe::analysis {

/// A run in several processes: servers in process 1, trainers in process 2, all others in process 0.
class stuck_run : public trace::made_recording {
 public:
  using trace::made_recording::made_recording;

  void spread() {
    for (trace::actor_state& one : edit().actors) one.process = one.name.starts_with("server") ? 1 : 0;
    for (trace::actor_state& one : edit().actors)
      if (one.name.starts_with("trainer")) one.process = 2;
    edit().processes.resize(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      edit().processes[i].pid = 100 + i;
      edit().processes[i].node = i;
    }
  }

  /// Adds an unanswered request to the board of `who`; returns its id.
  std::uint64_t ask(std::uint16_t who, std::uint16_t peer, std::string_view type_name, std::uint64_t at_step,
                    trace::nanoseconds since, std::uint64_t sequence) {
    const std::uint64_t id = trace::made_id(who, sequence);
    actor(who).open.push_back({id, type(type_name), peer, at_step, since});
    actor(who).last_sent = std::max(actor(who).last_sent, sequence);
    return id;
  }

  /// Adds an unanswered request that `peer` has handled and parked; returns its id.
  std::uint64_t ask_parked(std::uint16_t who, std::uint16_t peer, std::string_view type_name, std::uint64_t at_step,
                           trace::nanoseconds since, std::uint64_t sequence, std::uint16_t aux = 0) {
    const std::uint64_t id = ask(who, peer, type_name, at_step, since, sequence);
    handled(type_name, who, peer, {since, since, since, since + trace::us(10)},
            {.step = at_step, .flags = flag::request | flag::parked, .aux = aux, .sequence = sequence});
    return id;
  }

  struct made_call {
    std::uint64_t number = 1;
    std::uint64_t at_step = 0;
    trace::nanoseconds since = 0;
    std::vector<std::uint32_t> members = {0, 1, 2};
    std::vector<std::uint32_t> missing;
    std::string text = "all_reduce sum [1] of float32";
    std::uint32_t instance = 0;
    bool lacks_sums = false;
  };
  /// Adds a collective that trainer `rank` has called to its board.
  void call(std::uint16_t rank, const made_call& of) {
    trace::call_state what{.since = 1, .number = of.number, .step = of.at_step, .instance = of.instance};
    what.lacks_sums = of.lacks_sums ? 1 : 0;
    what.set_text(of.text);
    for (const std::uint32_t one : of.members) {
      what.members.add(one);
      what.group = what.group * 31 + one;
    }
    for (const std::uint32_t one : of.missing) what.missing.add(one);
    actor(trainer(rank)).calls.push_back({what, of.since});
  }
  /// Adds a tensor that trainer `rank` waits for.
  void receive(std::uint16_t rank, std::uint32_t from, std::uint64_t tag, std::uint64_t at_step,
               trace::nanoseconds since) {
    call(rank, {.number = tag,
                .at_step = at_step,
                .since = since,
                .members = {rank, from},
                .missing = {from},
                .text = "recv"});
    actor(trainer(rank)).calls.back().what.kind = trace::call_kind::receipt;
  }

  void gradient(std::uint16_t from, std::uint16_t to, std::uint64_t at_step, trace::nanoseconds when,
                std::uint64_t sequence) {
    handled("gradient", from, to, {when, when, when, when + trace::us(10)}, {.step = at_step, .sequence = sequence});
    actor(from).last_sent = std::max(actor(from).last_sent, sequence);
  }

  void launch(std::uint16_t rank, std::uint64_t sequence, std::uint64_t at_step, std::uint64_t id,
              trace::nanoseconds when, std::uint16_t to = group, std::uint16_t summed_by = 0) {
    trace::event e;
    e.what = trace::kind::collective_launch;
    e.actor = to;
    e.type = summed_by;
    e.aux = rank;
    e.cause = sequence;
    e.step = at_step;
    e.id = id;
    e.begin = e.end = when;
    add(e);
  }

  void mark(trace::kind what, std::uint16_t who, trace::nanoseconds when, std::uint16_t aux = 0, std::uint64_t id = 0) {
    trace::event e;
    e.what = what;
    e.actor = who;
    e.aux = aux;
    e.id = id;
    e.begin = e.end = when;
    add(e);
  }

  void at_work(std::uint16_t who, std::string_view type_name, std::uint64_t at_step, trace::nanoseconds since,
               std::uint64_t message) {
    trace::actor_state& state = actor(who);
    state.message = message;
    state.message_type = type(type_name);
    state.message_begin = since;
    state.step = at_step;
  }

  blocked_report now(trace::nanoseconds when) {
    for (trace::process_info& one : edit().processes)
      if (one.end == trace::ending::none) one.last = std::max(one.last, when);
    return find_blocked(done());
  }
};

inline bool has_wait(const blocked_report& report, std::uint16_t who, std::uint16_t on, wait_state state) {
  return std::ranges::any_of(
      report.waits, [&](const wait_edge& one) { return one.who == who && one.on == on && one.state == state; });
}

}  // namespace troupe::analysis
