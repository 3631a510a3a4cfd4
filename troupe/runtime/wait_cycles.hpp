// Finds trainers that wait for each other, without waiting for a deadline: by the probes of Chandy, Misra and Haas
// ("Distributed deadlock detection", 1983).
//
// A trainer that has waited for a while sends a probe to the trainers that it waits for. If a receiver owes what the
// sender waits for, it adds its own wait to the probe and passes it on to the trainers that it waits for itself. A
// probe that returns to a trainer that is still in the same wait has passed a cycle. Messages in transit make no false
// cycle: a trainer does not owe what it has sent.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::runtime {

/// What a trainer's function waits for.
struct trainer_wait {
  msg::peer_wait what;
  std::vector<std::uint32_t> on;  ///< the trainers that it waits for
};

/// A trainer, for the search.
class waiting_trainer {
 public:
  virtual ~waiting_trainer() = default;

  /// Returns none if the trainer may still do something for others before the wait ends.
  virtual std::optional<trainer_wait> waits_now() const = 0;
  /// Whether another trainer waits for an action that this one has not done yet.
  virtual bool owes(const msg::peer_wait& theirs) const = 0;

  virtual void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) = 0;
  /// Schedules a call of `wait_cycles::look`.
  virtual void look_after(std::chrono::milliseconds delay) = 0;
  /// Reports that this trainer and others wait for each other. May be called more than once.
  virtual void waits_for_ever(const std::string& text) = 0;
};

/// Belongs to a trainer's actor.
class wait_cycles {
 public:
  /// Requires: `of` outlives this object.
  wait_cycles(waiting_trainer& of, std::uint32_t rank, std::uint32_t trainers)
      : trainer_(of), rank_(rank), passed_on_(trainers) {}

  /// Sends probes if the trainer is in the same wait as at the last look. Then schedules the next look: later while the
  /// wait lasts.
  void look();
  /// Returns false if no trainer would send this probe.
  bool take(std::uint32_t sender, const msg::wait_probe& probe);

 private:
  static constexpr std::chrono::milliseconds shortest{250};
  static constexpr std::chrono::milliseconds longest{2000};

  bool is_possible(std::uint32_t sender, const std::vector<msg::peer_wait>& path) const;
  void send(const trainer_wait& own, std::uint64_t number, std::vector<msg::peer_wait> path);

  waiting_trainer& trainer_;
  const std::uint32_t rank_;
  std::uint64_t probes_ = 0;
  std::vector<std::uint64_t> passed_on_;  ///< by the rank that began it: the number of the last probe
  std::optional<msg::peer_wait> last_;    ///< the wait of the last look
  std::chrono::milliseconds delay_ = shortest;
};

}  // namespace troupe::runtime
