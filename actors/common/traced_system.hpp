// The settings of an actor system: its recorder, its replay, and the devices that its actors compute on.

#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/common/batches_ahead.hpp"
#include "actors/common/compute_devices.hpp"
#include "protocol/message_types.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::actors {

class replay_control;

struct traced_config : caf::actor_system_config {
  /// Must outlive the actor system; null: nothing is recorded.
  trace::recorder* recorder = nullptr;
  /// Must outlive the actor system; null: the run is no replay.
  replay_control* replayed = nullptr;
  compute_devices devices;
  /// Null: trainers make their own batches.
  std::shared_ptr<batch_threads> batch_makers;
};

/// Returns the recorder of `system`; null: nothing is recorded.
inline trace::recorder* recorder_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->recorder : nullptr;
}

/// Returns the replay that holds the actors of `system` to a recording; null: none.
inline replay_control* replay_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->replayed : nullptr;
}

/// Returns the devices that the actors of `system` compute on.
inline compute_devices devices_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->devices : compute_devices();
}

/// Returns the threads that make batches for the trainers of `system`, or null.
inline std::shared_ptr<batch_threads> batch_threads_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const traced_config*>(&system.config());
  return config != nullptr ? config->batch_makers : nullptr;
}

/// Returns all message types, as the recorder names them.
inline std::vector<trace::message_type> traced_types() {
  std::vector<trace::message_type> types;
  for (const protocol::message_type& type : protocol::all_message_types())
    types.push_back({type.number, std::string(type.name)});
  return types;
}

}  // namespace troupe::actors
