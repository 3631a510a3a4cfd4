// A stage for actor tests: an actor system whose messages the test's own thread handles one at a time, in the order in
// which they were sent or in one drawn from a seed.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/common/traced_system.hpp"
#include "model/random.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The result of a request; empty while it is pending.
template <class T>
struct outcome {
  std::optional<T> value;
  caf::error error;

  bool pending() const { return !value && !error; }
};

/// An actor system with the test's actors.
class staged_system {
 public:
  /// `settings` are added to the system's own.
  explicit staged_system(void (*settings)(caf::actor_system_config&) = nullptr) : config_(settings) {}

  ~staged_system() {
    dismiss();
    run();
  }

  staged_system(const staged_system&) = delete;
  staged_system& operator=(const staged_system&) = delete;

  caf::actor_system& system() { return system_; }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  /// Spawns an actor that ends with the test.
  template <class... Args>
  auto spawn(Args&&... args) {
    auto handle = system_.spawn(std::forward<Args>(args)...);
    spawned_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }

  /// Ends the actors spawned with `spawn`; they end when messages are handled.
  void dismiss() {
    for (const auto& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::kill);
    spawned_.clear();
  }

  /// Handles all messages, in the order in which actors became ready.
  void run() { scheduler().run(); }

  /// Handles a message of any ready actor; false if no actor is ready.
  bool run_any(model::random_sequence& random) {
    auto& jobs = scheduler().jobs;
    if (!jobs.empty()) std::swap(jobs.front(), jobs[random.below(jobs.size())]);
    return scheduler().try_run_once();
  }

  /// Handles all messages, choosing the next actor by a seed.
  void run_shuffled(std::uint64_t seed) {
    model::random_sequence random(model::mix(seed));
    while (run_any(random)) {
    }
  }

  /// Sends a request; its outcome is filled in while messages are handled.
  template <class T, class Handle, class Message>
  std::shared_ptr<outcome<T>> ask(const Handle& receiver, Message message, caf::timespan timeout = caf::infinite) {
    auto result = std::make_shared<outcome<T>>();
    spawn([result, receiver, timeout, message = std::move(message)](caf::event_based_actor* self) mutable {
      self->request(receiver, timeout, std::move(message))
          .then([result](T& answer) { result->value = std::move(answer); },
                [result](const caf::error& error) { result->error = error; });
    });
    return result;
  }

  /// Watches an actor; the reason is filled in when it has ended.
  template <class Handle>
  std::shared_ptr<std::optional<caf::error>> watch(const Handle& receiver) {
    auto reason = std::make_shared<std::optional<caf::error>>();
    spawn([reason, receiver](caf::event_based_actor* self) -> caf::behavior {
      self->monitor(receiver);
      self->set_down_handler([reason](const caf::down_msg& down) { *reason = down.reason; });
      return {[](int) {}};
    });
    return reason;
  }

 private:
  struct config : traced_config {
    explicit config(void (*settings)(caf::actor_system_config&)) {
      if (settings != nullptr) settings(*this);
      set("caf.scheduler.policy", "testing");
      config_file_path.clear();
    }
  };

  config config_;
  caf::actor_system system_{config_};
  std::vector<caf::actor> spawned_;
};

class stage : public testing::Test, protected staged_system {};

}  // namespace troupe::actors
