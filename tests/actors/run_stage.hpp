// A stage for whole runs: master, servers and trainers of a job.

#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/master/master.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors {

class run_stage : public stage {
 protected:
  /// Spawns the master, servers and trainers of a job and requests the run; handles no messages yet.
  void begin(const std::vector<model::setting>& settings, run_observer observer = {},
             run_checkpoints checkpoints = {}) {
    auto parsed = model::parse_job(settings);
    ASSERT_TRUE(parsed) << parsed.error().message;
    master_ = spawn(master, std::uint64_t{1}, std::move(observer), std::move(checkpoints), std::optional<node_rules>(),
                    plan_job);
    servers_.clear();
    trainers_.clear();
    for (std::uint32_t rank = 0; rank < parsed->servers; ++rank) {
      servers_.push_back(spawn(parameter_server, std::uint64_t{1}, rank));
      caf::anon_send(master_, msg::join_server{{}, relay_ ? relay_(servers_.back()) : servers_.back()});
    }
    for (std::uint32_t rank = 0; rank < parsed->trainers; ++rank) {
      trainers_.push_back(spawn(trainer, std::uint64_t{1}, rank, parsed->servers));
      caf::anon_send(master_,
                     msg::join_trainer{{}, relay_trainer_ ? relay_trainer_(trainers_.back()) : trainers_.back()});
    }
    answer_ = ask<msg::run_result>(master_, troupe::msg::run{{}, settings, return_weights_});
  }

  /// Handles `count` messages.
  void handle(std::size_t count) { scheduler().run(count); }

  static std::vector<model::setting> tutorial(const char* trainers, const char* servers) {
    return {{"data", "tutorial"}, {"trainers", trainers}, {"servers", servers}, {"steps", "25"}, {"seed", "3"}};
  }

  msg::master_actor master_;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<msg::trainer_actor> trainers_;
  std::shared_ptr<outcome<msg::run_result>> answer_;
  bool return_weights_ = false;
  /// If set, wraps each server for the master and the trainers.
  std::function<msg::parameter_server_actor(msg::parameter_server_actor)> relay_;
  /// If set, wraps each trainer.
  std::function<msg::trainer_actor(msg::trainer_actor)> relay_trainer_;
};

}  // namespace troupe::actors
