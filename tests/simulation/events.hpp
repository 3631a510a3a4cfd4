// The events of a simulation, in the order of simulated time, and the processes that they happen to.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>

#include "base/assert.hpp"
#include "model/random.hpp"
#include "tests/simulation/sim_clock.hpp"

namespace troupe::simulation {

/// The kind of an event, for the fingerprint.
enum class event_tag : std::uint8_t {
  turn = 1,  ///< an actor handles a message
  timer,
  arrival,  ///< a frame arrives
  silence,
  connecting,
  expiry,  ///< a request expires
  joining,
  leaving,
  attempt,
  see_off,
  look,  ///< a search for members
  starting,
  waking,
  power,
  fault,
};

/// A simulated process, as events see it.
class event_owner {
 public:
  enum class state : std::uint8_t { running, stopped, dead };

  explicit event_owner(std::uint32_t number) : number_(number) {}
  virtual ~event_owner() = default;
  event_owner(const event_owner&) = delete;
  event_owner& operator=(const event_owner&) = delete;

  std::uint32_t number() const { return number_; }
  bool is_dead() const { return state_ == state::dead; }
  bool is_stopped() const { return state_ == state::stopped; }

  /// Called before and after each of its events.
  virtual void enter() = 0;
  virtual void leave() = 0;

 private:
  friend class event_loop;

  const std::uint32_t number_;
  state state_ = state::running;
  std::deque<std::pair<event_tag, std::function<void()>>> put_off_;  ///< postponed while it is stopped
};

/// Draws all durations from a seed, and so the order of events.
class event_loop {
 public:
  explicit event_loop(std::uint64_t seed) : clock_(seed), random_(model::mix(seed + 1)) {}

  sim_time now() const { return clock_.now(); }
  std::uint64_t steps() const { return steps_; }
  /// A digest of everything that has happened.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Draws everything but faults.
  model::random_sequence& random() { return random_; }

  /// Draws a duration between `least` and `most`; short ones are as likely as long ones.
  sim_duration draw(sim_duration least, sim_duration most) {
    const auto spread = static_cast<std::uint64_t>((most - least).count());
    const unsigned shift = static_cast<unsigned>(random_.below(8));
    return least + sim_duration(static_cast<std::int64_t>(random_.below((spread >> shift) + 1)));
  }

  /// Schedules `what` for `receiver`: postponed while it is stopped, dropped once it is dead. Null: no process.
  void at(sim_time when, event_owner* receiver, event_tag tag, std::function<void()> what) {
    queue_.push({when, next_++, receiver, tag, std::move(what)});
  }
  void after(sim_duration time, event_owner* receiver, event_tag tag, std::function<void()> what) {
    at(now() + time, receiver, tag, std::move(what));
  }

  void kill(event_owner& receiver) {
    receiver.state_ = event_owner::state::dead;
    receiver.put_off_.clear();
  }
  void stop(event_owner& receiver) { receiver.state_ = event_owner::state::stopped; }
  void wake(event_owner& receiver) {
    TROUPE_ASSERT(receiver.is_stopped());
    receiver.state_ = event_owner::state::running;
    // Events that the process was about to handle may come before it learns, one by one, of events that happened
    // meanwhile.
    constexpr std::chrono::microseconds most{200};
    sim_time when = now();
    for (auto& [tag, what] : std::exchange(receiver.put_off_, {})) {
      if (tag != event_tag::turn) when += draw(sim_duration(0), most);
      at(tag == event_tag::turn ? now() : when, &receiver, tag, std::move(what));
    }
  }

  /// Runs one event. Returns false if none is left.
  bool step() {
    if (queue_.empty()) return false;
    event next = std::move(const_cast<event&>(queue_.top()));
    queue_.pop();
    clock_.advance_to(next.when);
    if (next.receiver != nullptr && next.receiver->is_dead()) return true;
    if (next.receiver != nullptr && next.receiver->is_stopped()) {
      next.receiver->put_off_.emplace_back(next.tag, std::move(next.what));
      return true;
    }
    ++steps_;
    note(static_cast<std::uint64_t>(next.tag) + (next.receiver != nullptr ? 1000 * (next.receiver->number() + 1) : 0));
    if (next.receiver == nullptr) {
      next.what();
    } else {
      as(*next.receiver, next.what);
    }
    return true;
  }

  /// Calls `what` on behalf of a process.
  static void as(event_owner& receiver, const std::function<void()>& what) {
    receiver.enter();
    what();
    receiver.leave();
  }

  void note(std::uint64_t what) {
    fingerprint_ =
        model::mix(fingerprint_ ^ model::mix(what + static_cast<std::uint64_t>(now().time_since_epoch().count())));
  }

 private:
  struct event {
    sim_time when;
    std::uint64_t number;
    event_owner* receiver;
    event_tag tag;
    std::function<void()> what;

    bool operator<(const event& other) const {  // the first event is the greatest
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  sim_clock clock_;
  model::random_sequence random_;
  std::priority_queue<event> queue_;
  std::uint64_t next_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace troupe::simulation
