// The settings of an actor system: what its actors record with, and what they compute on.

#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "protocol/message_types.hpp"
#include "trace/recorder.hpp"

namespace troupe::actors {

class replay_control;

struct traced_config : caf::actor_system_config {
  /// Must outlive the actor system; null: nothing is recorded.
  trace::recorder* recorder = nullptr;
  /// Must outlive the actor system; null: the run is no replay.
  replay_control* replayed = nullptr;
  /// What they compute on.
  compute_devices devices;
};

/// What the actors of `system` record with; null: they do not.
inline trace::recorder* recorder_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->recorder : nullptr;
}

/// What the actors of `system` are held to; null: nothing.
inline replay_control* replay_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->replayed : nullptr;
}

/// What the actors of `system` compute on.
inline compute_devices devices_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->devices : compute_devices();
}

/// All types of messages, for the recorder to name.
inline std::vector<trace::message_type> traced_types() {
  std::vector<trace::message_type> types;
  for (const protocol::message_type& type : protocol::all_message_types())
    types.push_back({type.number, std::string(type.name)});
  return types;
}

}  // namespace troupe::actors
