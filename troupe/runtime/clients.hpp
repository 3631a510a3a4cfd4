// The clients of a run: tasks on their own actors, in the run's leading process.

#pragma once

#include <caf/all.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/master/run_plan.hpp"
#include "troupe/client.hpp"
#include "troupe/runtime/caller.hpp"
#include "troupe/runtime/outside_caller.hpp"
#include "troupe/task.hpp"

namespace troupe::runtime {

using client_function = std::function<task<>(client)>;

/// Starts the clients' functions with the training, and ends them after it.
class clients final : public actors::run_companion, public std::enable_shared_from_this<clients> {
 public:
  explicit clients(std::vector<client_function> functions) : functions_(std::move(functions)) {}

  void begin(caf::actor_system& system, std::uint64_t run, const std::vector<msg::parameter_server_actor>& servers,
             const std::vector<std::vector<msg::module_ref>>& modules,
             std::function<void(const caf::error&)> fail) override;
  void end(std::function<void()> then) override;
  void stop() override;

  /// Reports a client's failure. Thread: any.
  void failed(const std::exception_ptr& thrown, std::size_t number) const;
  /// Called when a client's function has ended, or was dropped. Thread: any.
  void ended(const std::exception_ptr& thrown, std::size_t number);

 private:
  const std::vector<client_function> functions_;
  std::vector<caf::actor> actors_;
  std::function<void(const caf::error&)> fail_;
  std::mutex mutex_;
  std::size_t running_ = 0;
  std::function<void()> then_;
};

}  // namespace troupe::runtime
