// Servers and trainers of a process, each where it computes: on the worker threads, or on a thread of its own that may
// wait for a CUDA device.

#pragma once

#include <cstdint>

#include "actors/parameter_server.hpp"
#include "actors/traced_system.hpp"
#include "actors/trainer.hpp"

namespace troupe::cluster {

/// `spawner` is an actor system or an actor of it.
template <class Spawner>
msg::trainer_actor spawn_trainer(Spawner& spawner, const caf::actor_system& system, std::uint64_t run,
                                 std::uint32_t rank, std::uint32_t servers) {
  if (actors::devices_of(system).trainers)
    return spawner.template spawn<caf::detached>(actors::trainer, run, rank, servers);
  return spawner.spawn(actors::trainer, run, rank, servers);
}

template <class Spawner>
msg::parameter_server_actor spawn_server(Spawner& spawner, const caf::actor_system& system, std::uint64_t run,
                                         std::uint32_t rank) {
  if (actors::devices_of(system).servers)
    return spawner.template spawn<caf::detached>(actors::parameter_server, run, rank);
  return spawner.spawn(actors::parameter_server, run, rank);
}

}  // namespace troupe::cluster
