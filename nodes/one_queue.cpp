#include "nodes/one_queue.hpp"

#include <caf/actor_system.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/scheduler/coordinator.hpp>
#include <chrono>
#include <mutex>

#include "base/lingering.hpp"

namespace troupe::nodes {

namespace {

class one_queue : public caf::policy::work_sharing {
 public:
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
    lingering lingers{std::chrono::microseconds(30)};
  };

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& shared = d(self->parent());
    caf::resumable* job = nullptr;
    const auto take = [&] {
      const std::lock_guard lock(shared.lock);
      if (shared.queue.empty()) return false;
      job = shared.queue.front();
      shared.queue.pop_front();
      return true;
    };
    return d(self).lingers.look(take) ? job : caf::policy::work_sharing::dequeue(self);
  }
};

}  // namespace

void use_one_queue(caf::actor_system_config& config) {
  config.module_factories.push_back([](caf::actor_system& system) -> caf::actor_system::module* {
    return new caf::scheduler::coordinator<one_queue>(system);
  });
}

}  // namespace troupe::nodes
