// Sends the messages of a part of a network to the parts before, behind and beside it.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor. Fills in each message's rank, and its header for the step that it names.
class pipeline_links {
 public:
  using pointer = msg::full_trainer_actor::pointer;

  /// The trainers with these parts.
  struct neighbours {
    msg::part_actor before;               ///< sends this part its input; null: the leader has none
    msg::part_actor behind;               ///< the next stage's part; null at the last stage
    std::vector<msg::part_actor> slices;  ///< the other slices of its stage
  };

  /// `rank`: this trainer's. Requires: `trace` outlives this object.
  pipeline_links(pointer self, actor_trace& trace, std::uint32_t rank, neighbours to)
      : self_(self), trace_(trace), rank_(rank), to_(std::move(to)) {}

  std::uint32_t rank() const { return rank_; }

  /// Sends `what`, with `numbers` instead of its own, to the next stage, if there is one.
  void send_on(msg::activation what, msg::tensor numbers) const {
    what.numbers = std::move(numbers);
    if (to_.behind) send(to_.behind, std::move(what));
  }
  /// Sends to the part before.
  template <class Message>
  void send_back(Message what) const {
    send(to_.before, std::move(what));
  }
  /// Sends to the other slices of the stage.
  template <class Message>
  void send_beside(const Message& what) const {
    for (const msg::part_actor& one : to_.slices) send(one, what);
  }

 private:
  template <class Message>
  void send(const msg::part_actor& to, Message what) const {
    what.head = trace_.next(what.head.step);
    what.rank = rank_;
    self_->send(to, std::move(what));
  }

  pointer self_;
  actor_trace& trace_;
  const std::uint32_t rank_;
  const neighbours to_;
};

}  // namespace troupe::actors
