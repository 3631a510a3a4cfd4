// A trainer's function, from start to return: its task, and its current step, for diagnoses.

#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/stop_grace.hpp"
#include "troupe/runtime/actor_executor.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe::runtime {

using trainer_function = std::function<task<>(trainer)>;

/// Belongs to the trainer's actor, whose executor runs the task.
class running_function {
 public:
  explicit running_function(trainer_function function) : function_(std::move(function)) {}

  /// Runs it until it waits for the first time. `who`: the trainer's name. `on_end`: as in `running_task`. Passes on
  /// the exception of a function that is not a coroutine.
  void run(trainer me, const std::string& who, std::shared_ptr<const actor_executor> executor,
           std::function<void(std::exception_ptr)> on_end);
  /// Called when it has returned.
  void end() { under_way_.reset(); }
  /// Whether it has started, and not returned.
  bool is_under_way() const { return under_way_.has_value(); }

  void begins_step(std::uint64_t step) { place_.store(2 * step + 1, std::memory_order_relaxed); }
  void has_done(std::uint64_t step) { place_.store(2 * step, std::memory_order_relaxed); }

 private:
  trainer_function function_;
  std::atomic<std::uint64_t> place_ = 0;  ///< twice the step, plus one while the step is active
  std::optional<code_under_way> under_way_;
  running_task task_;  ///< destroyed first: it uses the function
};

}  // namespace troupe::runtime
