// Runs actors on the thread that received their message: waking another thread costs more than most handlers take.

#pragma once

#include <atomic>
#include <caf/action.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/execution_unit.hpp>
#include <caf/message.hpp>
#include <caf/message_id.hpp>
#include <caf/resumable.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Belongs to one thread, which passes it to `enqueue` as the context and then calls `run`.
class inline_execution : public caf::execution_unit {
 public:
  explicit inline_execution(caf::actor_system* system) : execution_unit(system) {}
  /// Releases actors that have not run.
  ~inline_execution() override {
    for (caf::resumable* job : jobs_) caf::intrusive_ptr_release(job);
  }

  void exec_later(caf::resumable* job) override { jobs_.push_back(job); }

  /// Runs every actor that has a message, and the actors that those wake, until none is left.
  void run() {
    running_on_ = std::this_thread::get_id();
    while (!jobs_.empty()) {
      caf::resumable* job = jobs_.front();
      jobs_.pop_front();
      const auto outcome = job->resume(this, std::numeric_limits<std::size_t>::max());
      if (outcome == caf::resumable::resume_later)
        jobs_.push_back(job);
      else if (outcome != caf::resumable::shutdown_execution_unit)  // it is done, or waits for a message
        caf::intrusive_ptr_release(job);
    }
    for (const auto& what : std::exchange(at_end_, {})) what();
    running_on_ = std::thread::id();
  }

  /// Returns whether the caller is an actor that `run` is running.
  bool runs_caller() const { return running_on_ == std::this_thread::get_id(); }

  /// Calls `what` when `run` has nothing else to do. Requires: the caller is an actor that `run` is running.
  void before_end(std::function<void()> what) { at_end_.push_back(std::move(what)); }

 private:
  std::deque<caf::resumable*> jobs_;
  std::vector<std::function<void()>> at_end_;
  std::atomic<std::thread::id> running_on_;
};

/// Calls `what` as `actor`, between two of its messages, on the thread that runs it then; never if the actor has ended.
/// `context`: of the calling actor, if any. Thread: any.
template <class F>
void run_in(const caf::strong_actor_ptr& actor, F&& what, caf::execution_unit* context = nullptr) {
  actor->enqueue(nullptr, caf::make_message_id(), caf::make_message(caf::make_action(std::forward<F>(what))), context);
}

}  // namespace troupe::actors
