// Runs actors on the thread that received their message: a wake-up of another thread costs more than most of them take.

#pragma once

#include <caf/execution_unit.hpp>
#include <deque>

namespace troupe {

/// Belongs to one thread, which hands it to `enqueue` as the context and then calls `run`.
class inline_execution : public caf::execution_unit {
 public:
  explicit inline_execution(caf::actor_system* system) : execution_unit(system) {}
  /// Actors that had no turn any more are let go of.
  ~inline_execution() override;

  void exec_later(caf::resumable* job) override { jobs_.push_back(job); }

  /// Gives every actor that has a message its turn, and those that it wakes, until none is left.
  void run();

 private:
  std::deque<caf::resumable*> jobs_;
};

}  // namespace troupe
