// A simulated process: its own actor system, whose actors handle one message at a time, in a drawn order.

#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <memory>
#include <optional>
#include <string>

#include "actors/common/traced_system.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "tests/simulation/events.hpp"
#include "tests/simulation/sim_disk.hpp"

namespace troupe::simulation {

class sim_process final : public event_owner {
 public:
  sim_process(event_loop& events, sim_disk& disk, std::uint32_t number, std::string name);
  /// Ends its actors.
  ~sim_process() override;

  const std::string& name() const { return name_; }
  caf::actor_system& system() { return *system_; }

  /// Handles all pending messages.
  void run_all() {
    while (scheduler().try_run_once()) {
    }
  }

  void enter() override;
  void leave() override;

 private:
  struct config : actors::traced_config {
    config() {
      nodes::add_network(*this);  // without connections, but gives the system a node's name
      set("caf.middleman.network-backend", "testing");
      set("caf.scheduler.policy", "testing");
      config_file_path.clear();
    }
  };

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  void run_one();
  void look_at_timers();
  void end_actors();

  event_loop& events_;
  sim_disk& disk_;
  const std::string name_;
  config config_;
  std::unique_ptr<caf::actor_system> system_ = std::make_unique<caf::actor_system>(config_);
  bool has_turn_ = false;
  std::optional<sim_time> timer_;
};

}  // namespace troupe::simulation
