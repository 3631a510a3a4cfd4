#include "tests/fuzz/actors.hpp"

#include <caf/scheduler/test_coordinator.hpp>

namespace troupe::fuzz {

caf::actor_system& the_system() {
  struct config : caf::actor_system_config {
    config() {
      set("caf.scheduler.policy", "testing");
      config_file_path.clear();
    }
  };
  static caf::actor_system& system = []() -> caf::actor_system& {
    caf::core::init_global_meta_objects();
    // In every target, this would cost the compiler minutes.
    caf::init_global_meta_objects<caf::id_block::troupe>();
    static auto& settings = *new config;
    return *new caf::actor_system(settings);
  }();
  return system;
}

void run_all() { dynamic_cast<caf::scheduler::test_coordinator&>(the_system().scheduler()).run(); }

}  // namespace troupe::fuzz
