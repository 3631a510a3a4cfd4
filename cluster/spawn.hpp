// Spawns servers and trainers on the threads that fit their device.

#pragma once

#include "actors/parameter_server.hpp"
#include "actors/trainer.hpp"

namespace troupe::cluster {

/// Spawns on the worker threads; if `on_device`, on a thread of its own, which may block on a CUDA device. `spawner`:
/// an actor system or one of its actors.
template <class Spawner, class Actor, class... Args>
auto spawn_computing(Spawner& spawner, bool on_device, Actor actor, Args... args) {
  return on_device ? spawner.template spawn<caf::detached>(actor, args...) : spawner.spawn(actor, args...);
}

}  // namespace troupe::cluster
