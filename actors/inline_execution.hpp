// Runs actors on the thread that received their message: a wake-up of another thread costs more than most of them take.

#pragma once

#include <atomic>
#include <caf/execution_unit.hpp>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Belongs to one thread, which hands it to `enqueue` as the context and then calls `run`.
class inline_execution : public caf::execution_unit {
 public:
  explicit inline_execution(caf::actor_system* system) : execution_unit(system) {}
  /// Actors that had no turn any more are let go of.
  ~inline_execution() override;

  void exec_later(caf::resumable* job) override { jobs_.push_back(job); }

  /// Gives every actor that has a message its turn, and those that it wakes, until none is left.
  void run();

  /// True if the caller is an actor that `run` gives its turn.
  bool runs_caller() const { return running_on_ == std::this_thread::get_id(); }

  /// To be called when `run` has nothing else to do. By an actor that it gives its turn.
  void before_end(std::function<void()> what) { at_end_.push_back(std::move(what)); }

 private:
  std::deque<caf::resumable*> jobs_;
  std::vector<std::function<void()>> at_end_;
  std::atomic<std::thread::id> running_on_;
};

}  // namespace troupe::actors
