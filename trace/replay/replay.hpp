// Replays a run: servers handle training messages in the recorded order, so that runs without a fixed order (async,
// ssp) give the same results, and every training message is compared with the recorded one. The first difference ends
// the run.

#pragma once

#include <atomic>
#include <caf/actor_addr.hpp>
#include <caf/mailbox_element.hpp>
#include <memory>
#include <mutex>

#include "actors/common/replay_gate.hpp"
#include "trace/replay/replay_order.hpp"

namespace troupe::trace {
struct recording;
}

namespace troupe::replay {

class replay;

class replayed_actor final : public actors::replay_gate {
 public:
  replayed_actor(replay& all, std::uint16_t number, const std::vector<expected_message>* expected);

  void start(const caf::actor_addr& self) override;
  bool may_handle(const msg::header& head, std::uint16_t type) override;
  void hold(const msg::header& head, std::uint16_t type, caf::mailbox_element_ptr message) override;
  caf::mailbox_element_ptr take_next() override;
  void compare(const msg::header& head, std::uint16_t type, std::uint16_t aux, const trace::content& now) override;

  /// Returns the message that the order waits for; empty: none. Thread: any.
  std::string waits_for() const;

 private:
  friend class replay;

  struct held_message {
    msg::message_id id = 0;
    actors::replay_key key;
    caf::mailbox_element_ptr message;
  };

  struct same_key {
    std::vector<std::size_t> places;  ///< indices in `expected_`
    std::size_t next = 0;
  };

  replay& all_;
  const std::uint16_t number_;
  const std::vector<expected_message>* const expected_;
  caf::actor_addr self_;  ///< other threads read it under the replay's mutex
  std::map<actors::replay_key, same_key> by_key_;

  // The messages with a fixed order.
  std::vector<std::size_t> ordered_;                             ///< indices in `expected_`
  std::atomic<std::size_t> next_ = 0;                            ///< index in `ordered_`
  std::map<std::uint16_t, std::vector<std::size_t>> by_sender_;  ///< indices in `expected_`
  std::map<std::uint16_t, std::size_t> come_;                    ///< messages received, by sender
  msg::message_id released_ = 0;                                 ///< a held message to handle next; 0: none
  std::vector<held_message> held_;
};

/// Shared by the actors of the replayed run. Requires: `order` and `from` outlive it.
class replay final : public actors::replay_control {
 public:
  replay(const replay_order& order, const trace::recording& from);

  bool is_remote() const override { return order_.is_remote; }
  replayed_actor* find(std::uint32_t actor) override;

  /// Ends the run because no message has come for too long. Called by a watching thread.
  void give_up();

  // -- the outcome; from any thread -----------------------------------------------------

  std::uint64_t expected() const { return expected_; }
  /// Returns whether training messages have come, so that more should follow.
  bool has_begun() const { return handled() > 0 || held_back_.load(std::memory_order_relaxed); }
  std::uint64_t handled() const { return handled_.load(std::memory_order_relaxed); }
  std::uint64_t compared() const { return compared_.load(std::memory_order_relaxed); }
  /// Returns whether all recorded messages have been handled.
  bool is_complete() const { return handled() == expected_; }
  /// Returns the first difference, a line; empty: none.
  std::string difference() const;

 private:
  friend class replayed_actor;

  /// Ends actor `noticed`, and with it the run. Keeps the first text only.
  void differs(const caf::actor_addr& noticed, std::string text);
  void count(const caf::actor_addr& self, bool has_content);
  std::string description_of(const actors::replay_key& key) const;

  const replay_order& order_;
  const trace::recording& recorded_;
  std::uint64_t expected_ = 0;
  std::map<std::uint16_t, std::unique_ptr<replayed_actor>> actors_;
  std::atomic<std::uint64_t> handled_ = 0;
  std::atomic<std::uint64_t> compared_ = 0;
  std::atomic<bool> held_back_ = false;
  mutable std::mutex mutex_;
  std::string difference_;
};

}  // namespace troupe::replay
