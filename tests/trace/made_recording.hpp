// Recordings made by hand, whose numbers are all known to the test.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "trace/record/recording.hpp"

namespace troupe::trace {

constexpr nanoseconds us(std::int64_t microseconds) { return microseconds * 1'000; }
constexpr nanoseconds ms(std::int64_t milliseconds) { return milliseconds * 1'000'000; }

/// When a message was sent, when it arrived, and when its handler began and ended.
struct moments {
  nanoseconds sent = 0;
  nanoseconds arrived = 0;
  nanoseconds begin = 0;
  nanoseconds end = 0;
};

constexpr moments us(std::int64_t sent, std::int64_t arrived, std::int64_t begin, std::int64_t end) {
  return {us(sent), us(arrived), us(begin), us(end)};
}
constexpr moments ms(std::int64_t sent, std::int64_t arrived, std::int64_t begin, std::int64_t end) {
  return {ms(sent), ms(arrived), ms(begin), ms(end)};
}

constexpr std::uint64_t made_id(std::uint16_t sender, std::uint64_t sequence) {
  return std::uint64_t{sender} << 48 | sequence;
}

/// A message as its receiver recorded it. `sequence` 0: the sender's next.
struct made_message {
  std::uint16_t from = 0;
  std::uint16_t to = 0;
  std::string_view type = {};
  std::uint64_t step = 0;
  std::uint64_t cause = 0;
  nanoseconds sent = 0;
  nanoseconds arrived = 0;
  nanoseconds begin = 0;
  nanoseconds end = 0;
  std::uint8_t flags = 0;
  std::uint32_t bytes = 0;
  std::uint16_t aux = 0;
  std::uint64_t sequence = 0;
};

/// A run with master (0), allreduce group (1), servers and trainers, all in process 0 by default.
class made_recording {
 public:
  explicit made_recording(std::uint16_t servers = 1, std::uint16_t trainers = 1) : servers_(servers) {
    run_.run = 7;
    run_.processes.resize(1);
    actor(master, "master");
    actor(group, "allreduce");
    for (std::uint16_t i = 0; i < servers; ++i) actor(server(i), "server " + std::to_string(i));
    for (std::uint16_t i = 0; i < trainers; ++i) actor(trainer(i), "trainer " + std::to_string(i));
  }

  static constexpr std::uint16_t master = 0;
  static constexpr std::uint16_t group = 1;
  std::uint16_t server(std::uint16_t i) const { return static_cast<std::uint16_t>(2 + i); }
  std::uint16_t trainer(std::uint16_t i) const { return static_cast<std::uint16_t>(2 + servers_ + i); }

  /// Returns the board's entry of an actor, added if missing. If a name is given, sets its name and process.
  actor_state& actor(std::uint16_t number, const std::string& name = {}, std::uint32_t process = 0) {
    auto known = std::ranges::find(run_.actors, number, &actor_state::actor);
    if (known == run_.actors.end()) {
      actor_state fresh;
      fresh.actor = number;
      fresh.alive = true;
      fresh.step_begin = fresh.message_begin = -1;
      known = run_.actors.insert(known, fresh);
    }
    if (!name.empty()) {
      known->name = name;
      known->process = process;
      if (run_.processes.size() <= process) run_.processes.resize(process + 1);
    }
    return *known;
  }

  /// Returns the number of a message type, added if new.
  std::uint16_t type(std::string_view name) {
    for (const auto& [number, known] : run_.types) {
      if (known == name) return number;
    }
    const auto number = static_cast<std::uint16_t>(200 + run_.types.size());
    run_.types[number] = name;
    return number;
  }

  /// Records that a message was handled; returns its id.
  std::uint64_t handled(const made_message& m) {
    event e;
    e.what = kind::handled;
    e.flags = m.flags;
    e.actor = m.to;
    e.type = type(m.type);
    e.aux = m.aux;
    e.bytes = m.bytes;
    e.step = m.step;
    e.id = next_id(m.from, m.sequence);
    e.cause = m.cause;
    e.sent = m.sent;
    e.arrived = m.arrived;
    e.begin = m.begin;
    e.end = m.end;
    return add(e);
  }

  /// The same; `m` has all other values.
  std::uint64_t handled(std::string_view type, std::uint16_t from, std::uint16_t to, const moments& at,
                        made_message m = {}) {
    m.type = type;
    m.from = from;
    m.to = to;
    m.sent = at.sent;
    m.arrived = at.arrived;
    m.begin = at.begin;
    m.end = at.end;
    return handled(m);
  }

  /// Records that a frame left (`what` sent) or arrived (arrived) between processes; returns its id.
  std::uint64_t frame(kind what, std::string_view type, std::uint16_t from, std::uint16_t to, nanoseconds when,
                      const made_message& m = {}) {
    event e;
    e.what = what;
    e.flags = m.flags;
    e.actor = what == kind::sent ? from : to;
    e.type = this->type(type);
    e.aux = to;
    e.bytes = m.bytes;
    e.step = m.step;
    e.id = next_id(from, m.sequence);
    e.cause = m.cause;
    e.sent = e.arrived = e.begin = e.end = when;
    return add(e);
  }

  /// Records that `id`, an answer to a parked request, was sent while `actor` handled `cause`.
  void released(std::uint16_t actor, std::uint64_t id, std::uint64_t cause, nanoseconds when) {
    event e;
    e.what = kind::released;
    e.actor = actor;
    e.id = id;
    e.cause = cause;
    e.sent = e.arrived = e.begin = e.end = when;
    add(e);
  }

  void range(std::uint16_t actor, range_name what, std::uint64_t step, nanoseconds begin, nanoseconds end,
             std::uint64_t id = 0) {
    stretch(kind::range, actor, static_cast<std::uint16_t>(what), step, begin, end, id);
  }

  void step(std::uint16_t trainer, std::uint64_t step, nanoseconds begin, nanoseconds end) {
    stretch(kind::step, trainer, 0, step, begin, end, 0);
  }

  /// Records that the process of `actor` did not run.
  void stalled(std::uint16_t actor, nanoseconds begin, nanoseconds end) {
    stretch(kind::stalled, actor, 0, 0, begin, end, 0);
  }

  /// Records a device's work for `actor`.
  void on_device(std::uint16_t actor, std::uint16_t device, range_name what, std::uint64_t step, nanoseconds begin,
                 nanoseconds end) {
    stretch(kind::device_range, actor, static_cast<std::uint16_t>(what), step, begin, end, 0, device);
  }

  /// Adds any other event, with the process set to its actor's; returns its id.
  std::uint64_t add(event e) {
    if (const actor_state* known = run_.find_actor(e.actor)) e.process = known->process;
    process_info& process = run_.processes[e.process];
    process.last = std::max({process.last, e.begin, e.end});
    ++process.records;
    run_.events.push_back(e);
    return e.id;
  }

  /// Returns the recording for changes.
  recording& edit() { return run_; }

  /// Returns the recording with its events in order.
  const recording& done() {
    std::ranges::stable_sort(run_.events, {}, &event::begin);
    return run_;
  }

 private:
  std::uint64_t next_id(std::uint16_t sender, std::uint64_t sequence) {
    std::uint64_t& last = sequences_[sender];
    last = sequence != 0 ? sequence : last + 1;
    return made_id(sender, last);
  }

  void stretch(kind what, std::uint16_t actor, std::uint16_t type, std::uint64_t step, nanoseconds begin,
               nanoseconds end, std::uint64_t id, std::uint16_t aux = 0) {
    event e;
    e.what = what;
    e.aux = aux;
    e.actor = actor;
    e.type = type;
    e.step = step;
    e.id = id;
    e.sent = e.arrived = e.begin = begin;
    e.end = end;
    add(e);
  }

  std::uint16_t servers_;
  recording run_;
  std::map<std::uint16_t, std::uint64_t> sequences_;
};

}  // namespace troupe::trace
