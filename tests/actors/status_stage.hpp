// Runs under the deterministic scheduler that are asked for their status.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/actors/run_stage.hpp"
#include "tests/actors/slow_road.hpp"

namespace troupe::actors {

using lines = std::vector<std::string>;

/// A run that is blocked because a message is held back.
class status_stage : public run_stage {
 protected:
  /// Returns the run's status once all messages are handled.
  msg::run_status overall() {
    auto answer = ask<msg::run_status>(master_, msg::status{});
    run();
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    return answer->value.value_or(msg::run_status{});
  }

  static lines waits_of(const msg::run_status& now) {
    lines all;
    for (const msg::wait_status& wait : now.waits)
      all.push_back(wait.who + " < " + wait.what + " " + std::to_string(wait.step) + " < " + wait.on);
    return all;
  }

  static lines phases_of(const msg::run_status& now) {
    lines all;
    for (const msg::actor_status& one : now.actors) all.push_back(one.name + ": " + one.phase);
    return all;
  }

  /// Holds back the gradients of `rank` from `step` on.
  void hold_gradients(std::uint32_t rank, std::uint64_t step) {
    road_ = {rank, step, {}, false, {}};
    relay_ = [this](const msg::parameter_server_actor& server) {
      return spawn([this, server](msg::parameter_server_actor::pointer self) { return road_.behavior(self, server); });
    };
  }

  void release() {
    while (!road_.kept.empty()) {
      auto late = std::exchange(road_.kept, {});
      road_.step = UINT64_MAX;
      for (msg::gradient& one : late) caf::anon_send(servers_[0], std::move(one));
      run();
    }
  }

  slow_road road_{};
};

}  // namespace troupe::actors
