// Runs actors on the thread that received or sent their message: waking another thread costs more than most handlers
// take. Actors that run users' code stay on the workers: that code may take any time, and other actors wait for this
// thread.

#pragma once

#include <atomic>
#include <caf/action.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/local_actor.hpp>
#include <caf/message.hpp>
#include <caf/message_id.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "actors/common/compute_devices.hpp"

namespace troupe::actors {

/// A flag of CAF's actors that CAF does not use.
inline constexpr int runs_users_code_flag = 0x4000;

/// Marks an actor as running users' code: from now on only the workers, or its own thread, run it. Thread: the actor's.
inline void leave_to_workers(caf::local_actor* self) { self->setf(runs_users_code_flag); }

/// Belongs to one thread, which passes it to `enqueue` as the context and then calls `run`.
class inline_execution : public caf::execution_unit {
 public:
  /// `messages_max`: how many messages an actor handles at a time before a worker gets the rest.
  explicit inline_execution(caf::actor_system* system,
                            std::size_t messages_max = std::numeric_limits<std::size_t>::max())
      : execution_unit(system), messages_max_(messages_max) {}
  /// Releases actors that have not run.
  ~inline_execution() override {
    for (caf::resumable* job : jobs_) caf::intrusive_ptr_release(job);
  }

  void exec_later(caf::resumable* job) override {
    if (runs_users_code(job))
      system().scheduler().enqueue(job);
    else
      jobs_.push_back(job);
  }

  /// Runs all actors that have messages, and the actors that they wake, until none is left.
  void run() {
    running_on_ = std::this_thread::get_id();
    while (!jobs_.empty()) {
      caf::resumable* job = jobs_.front();
      jobs_.pop_front();
      const auto outcome = job->resume(this, messages_max_);
      if (outcome == caf::resumable::resume_later)
        system().scheduler().enqueue(job);
      else if (outcome != caf::resumable::shutdown_execution_unit)  // it has ended, or waits for a message
        caf::intrusive_ptr_release(job);
    }
    for (const auto& what : std::exchange(at_end_, {})) what();
    running_on_ = std::thread::id();
  }

  /// During its lifetime `self`, which runs on a thread of its own, wakes actors on this thread; its destructor runs
  /// them.
  class scope {
   public:
    /// `on` may be null: then does nothing.
    scope(inline_execution* on, caf::local_actor* self) : on_(on), self_(self), before_(self->context()) {
      if (on_ != nullptr) self_->context(on_);
    }
    ~scope() {
      if (on_ == nullptr) return;
      self_->context(before_);
      on_->run();
    }
    scope(const scope&) = delete;

   private:
    inline_execution* on_;
    caf::local_actor* self_;
    caf::execution_unit* before_;
  };

  /// During its lifetime, within a `scope`, `self` wakes actors on other threads. For actors that may block this one.
  class elsewhere {
   public:
    elsewhere(const inline_execution* on, caf::local_actor* self) : self_(self), before_(self->context()) {
      if (on != nullptr && before_ == on) self_->context(nullptr);
    }
    ~elsewhere() { self_->context(before_); }
    elsewhere(const elsewhere&) = delete;

   private:
    caf::local_actor* self_;
    caf::execution_unit* before_;
  };

  /// Returns whether the caller is an actor that `run` is running.
  bool runs_caller() const { return running_on_ == std::this_thread::get_id(); }

  /// Calls `what` when `run` has nothing else to do. Requires: the caller is an actor that `run` is running.
  void before_end(std::function<void()> what) { at_end_.push_back(std::move(what)); }

 private:
  static bool runs_users_code(const caf::resumable* job) {
    return job->subtype() == caf::resumable::scheduled_actor &&
           static_cast<const caf::scheduled_actor*>(job)->getf(runs_users_code_flag);
  }

  const std::size_t messages_max_;
  std::deque<caf::resumable*> jobs_;
  std::vector<std::function<void()>> at_end_;
  std::atomic<std::thread::id> running_on_;
};

/// Returns the executor of the actors that trainer `self` wakes; null: the workers run them. Not null only if trainers
/// and servers both compute on devices: then the trainer has a thread of its own, and the servers' work, which is long
/// on the processor, is short.
inline std::unique_ptr<inline_execution> own_execution(caf::local_actor* self, const compute_devices& devices) {
  constexpr std::size_t messages_max = 64;  // other actors keep sending while this thread runs an actor
  return devices.trainers && devices.servers ? std::make_unique<inline_execution>(&self->system(), messages_max)
                                             : nullptr;
}

/// Calls `what` as `actor`, between two of its messages, on the thread that runs it then; never if the actor has ended.
/// `context`: the calling actor's, if any. Thread: any.
template <class F>
void run_in(const caf::strong_actor_ptr& actor, F&& what, caf::execution_unit* context = nullptr) {
  actor->enqueue(nullptr, caf::make_message_id(), caf::make_message(caf::make_action(std::forward<F>(what))), context);
}

/// The same, if the actor still exists.
template <class F>
void run_in(const caf::weak_actor_ptr& actor, F&& what) {
  if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(actor)) run_in(strong, std::forward<F>(what));
}

}  // namespace troupe::actors
