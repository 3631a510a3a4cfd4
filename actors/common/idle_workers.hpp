// An actor system's workers, which help with parts of other threads' work while they have no actor to run.

#pragma once

#include <caf/actor_system.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "kernels/idle_threads.hpp"

namespace troupe::actors {

/// A worker runs offered work after its actors. Thread: any.
class idle_workers final : public kernels::idle_threads {
 public:
  explicit idle_workers(caf::actor_system& system) : system_(&system) {}

  std::size_t count() const override;
  void offer(std::function<void()> help) override;

  /// Ignores all later offers. Requires: called before the system is destroyed.
  void close();

 private:
  mutable std::mutex mutex_;
  caf::actor_system* system_;  ///< null: closed
};

/// Lets the workers of a system help while it lives. Requires: the system outlives it.
class workers_help {
 public:
  explicit workers_help(caf::actor_system& system)
      : workers_(std::make_shared<idle_workers>(system)), in_use_(workers_) {}
  ~workers_help() { workers_->close(); }
  workers_help(const workers_help&) = delete;
  workers_help& operator=(const workers_help&) = delete;

 private:
  std::shared_ptr<idle_workers> workers_;
  kernels::idle_threads_in_use in_use_;
};

}  // namespace troupe::actors
