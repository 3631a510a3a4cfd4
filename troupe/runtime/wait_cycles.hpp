// Finds trainers that wait for each other, without waiting for a deadline: by the probes of Chandy, Misra and Haas
// ("Distributed deadlock detection", 1983).
//
// A trainer that waits for a while sends a probe to those without which its wait cannot end. One that gets a probe adds
// its own wait and passes it on to those for which it waits itself, if it owes what the sender waits for. A probe that
// comes back to a trainer that is still in the same wait has passed a cycle. What is on its way between two of them
// ends no wait: a trainer owes nothing that it has sent.

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
  std::vector<std::uint32_t> on;  ///< the trainers that have not done their part, without which it does not end
};

/// A trainer, as the search sees it.
class waiting_trainer {
 public:
  virtual ~waiting_trainer() = default;

  /// None unless the trainer does nothing more for others before that wait has ended.
  virtual std::optional<trainer_wait> waits_now() const = 0;
  /// Whether this trainer has not yet done what that wait of another trainer needs of it.
  virtual bool owes(const msg::peer_wait& theirs) const = 0;

  virtual void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) = 0;
  /// Has `wait_cycles::look` called.
  virtual void look_after(std::chrono::milliseconds delay) = 0;
  /// This trainer and others wait for each other. Perhaps called more than once.
  virtual void waits_for_ever(const std::string& words) = 0;
};

/// Belongs to a trainer's actor.
class wait_cycles {
 public:
  /// Requires: `of` outlives this object.
  wait_cycles(waiting_trainer& of, std::uint32_t rank, std::uint32_t trainers)
      : trainer_(of), rank_(rank), passed_on_(trainers) {}

  /// Sends probes if the trainer is in the wait in which it was before. Then waits for the next look: longer while the
  /// wait lasts.
  void look();
  /// Returns false if no trainer sends such a probe.
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
