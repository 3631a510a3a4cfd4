// How a run's trainers are made: the program's, or those of a user's program.

#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// The trainers of a run, as one of them sees the others.
struct trainer_peers {
  std::vector<msg::peer_actor> of_rank;  ///< null: itself
  std::vector<caf::actor_addr> senders;  ///< the sender of a trainer's messages if it is in another process; else null
};

/// A new trainer, and a function that gives it its peers before the order to train; null: it talks to no other trainer.
struct made_trainer {
  made_trainer(msg::trainer_actor made, std::function<void(trainer_peers)> report = {})
      : actor(std::move(made)), send_peers(std::move(report)) {}

  msg::trainer_actor actor;
  std::function<void(trainer_peers)> send_peers;
};

/// Gives each of these trainers of one process its peers. `all`: by rank; null for the trainers in `made`.
inline void introduce(const std::map<std::uint32_t, made_trainer>& made, trainer_peers all) {
  for (const auto& [rank, one] : made) all.of_rank[rank] = caf::actor_cast<msg::peer_actor>(one.actor);
  for (const auto& [rank, one] : made) {
    if (!one.send_peers) continue;
    trainer_peers others = all;
    others.of_rank[rank] = nullptr;
    one.send_peers(std::move(others));
  }
}

/// Spawns trainer `rank` of run `run`, which has `servers` servers. Thread: any.
using trainer_maker = std::function<made_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                                 std::uint32_t servers)>;

}  // namespace troupe::actors
