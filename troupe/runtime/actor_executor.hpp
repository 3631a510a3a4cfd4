// The tasks of an actor: a trainer's function, a client's, or methods of a server's objects. They run on the thread
// that the actor has at the moment, between two of its messages or as part of one. Those of a trainer can have a stack
// of their own, so that a pass can wait for other trainers in its midst while the actor handles more messages.

#pragma once

#include <atomic>
#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "base/fiber.hpp"
#include "troupe/executor.hpp"
#include "troupe/future.hpp"

namespace troupe::runtime {

class caller;

class actor_executor final : public executor {
 public:
  actor_executor(caller& of, const caf::strong_actor_ptr& actor)
      : caller_(of), actor_(caf::actor_cast<caf::weak_actor_ptr>(actor)) {}

  /// What makes the actor's calls; gone if the actor is.
  caller& owner() const { return caller_; }

  void post(std::shared_ptr<runnable> what) override;
  /// The same. Thread: any.
  void post_function(std::function<void()> what);
  void callback_threw(const std::exception_ptr& thrown) override;

  /// Runs `what` as part of the actor's current message, then all tasks that go on because of it.
  template <class F>
  void enter(F&& what) {
    if (current() == this) return what();
    const scope here(*this);
    const counted_entry mine(turns_);
    what();
    drain();
  }

  /// How often it was entered and left: odd while it is entered. Thread: any.
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

  /// When tasks go on the next time, they are on a stack of their own, or no longer: to change to it and back takes a
  /// microsecond. Throws std::bad_alloc if there is no memory for it.
  void use_own_stack(bool wanted);
  /// Unwinds a task that waits in its midst; no other one goes on. Before what tasks use is destroyed.
  void end_stack();

  /// Whether a task is within `wait`.
  bool waits_in_midst() const { return task_ == task_state::waits; }
  /// Whether the caller is a task that can `wait`.
  bool can_wait() const { return runs_stack_ && current() == this; }
  /// Returns the result, or throws its error. Until it is here the actor handles other messages, and no task of it goes
  /// on. Requires: `can_wait`.
  template <class T>
  T wait(future<T> coming) {
    const auto here = std::make_shared<future<T>>();
    task_ = task_state::waits;
    std::move(coming).then([this, me = shared_from_this(), here](future<T> ready) {
      *here = std::move(ready);
      task_ = task_state::goes_on;
      post_function([] {});  // the actor may be at something else than its tasks
    });
    if (task_ == task_state::waits) stack_->leave();
    task_ = task_state::none;
    return here->get();
  }

  /// The one whose task runs on the calling thread; null: none.
  static actor_executor* here() { return dynamic_cast<actor_executor*>(current()); }

 private:
  /// Whether the stack was left in the midst of a task.
  enum class task_state : std::uint8_t { none, waits, goes_on };

  /// The executor is entered during the lifetime of this object.
  class counted_entry {
   public:
    explicit counted_entry(std::atomic<std::uint64_t>& turns) : turns_(turns) { count(); }
    ~counted_entry() { count(); }
    counted_entry(const counted_entry&) = delete;
    counted_entry& operator=(const counted_entry&) = delete;

   private:
    void count() { turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

    std::atomic<std::uint64_t>& turns_;
  };

  void drain();
  void run_ready();

  caller& caller_;
  caf::weak_actor_ptr actor_;
  std::deque<std::shared_ptr<runnable>> ready_;  ///< posted from the actor's own thread
  std::unique_ptr<fiber> stack_;                 ///< of tasks; null: they had none yet
  bool uses_stack_ = false;
  task_state task_ = task_state::none;
  bool runs_stack_ = false;
  bool is_ending_ = false;
  std::atomic<std::uint64_t> turns_ = 0;  ///< written by its own thread
};

}  // namespace troupe::runtime
