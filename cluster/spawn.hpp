// Servers and trainers of a process, each where it computes.

#pragma once

#include "actors/parameter_server.hpp"
#include "actors/trainer.hpp"

namespace troupe::cluster {

/// Spawns on the worker threads, or if `on_device` on a thread of its own that may wait for a CUDA device. `spawner` is
/// an actor system or an actor of it.
template <class Spawner, class Actor, class... Args>
auto spawn_computing(Spawner& spawner, bool on_device, Actor actor, Args... args) {
  return on_device ? spawner.template spawn<caf::detached>(actor, args...) : spawner.spawn(actor, args...);
}

}  // namespace troupe::cluster
