// Runs the tasks of an actor: a trainer's function, a client's, or methods of a server's objects, on the thread that
// the actor currently runs on, between two of its messages or as part of one. A trainer's tasks can have their own
// stack, so that a pass can wait for other trainers while the actor handles more messages.

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

  /// Makes the actor's calls. Destroyed with the actor.
  caller& owner() const { return caller_; }

  void post(std::shared_ptr<runnable> what) override;
  /// Posts a function. Thread: any.
  void post_function(std::function<void()> what);
  void callback_threw(const std::exception_ptr& thrown) override;

  /// Runs `what` as part of the actor's current message, then all tasks that it has made ready.
  template <class F>
  void enter(F&& what) {
    if (current() == this) return what();
    const scope here(*this);
    const counted_entry mine(turns_);
    what();
    drain();
  }

  /// Counts entries and exits: odd while it is entered. Thread: any.
  std::uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

  /// Chooses whether tasks run on their own stack from their next resumption on; each switch there and back costs a
  /// microsecond. Throws std::bad_alloc if there is no memory for the stack.
  void use_own_stack(bool wanted);
  /// Unwinds a task that is suspended in `wait`; no other task resumes. Call it before what tasks use is destroyed.
  void end_stack();

  /// Whether a task is within `wait`.
  bool waits_in_midst() const { return task_ == task_state::waits; }
  /// Whether the caller is a task that can `wait`.
  bool can_wait() const { return runs_stack_ && current() == this; }
  /// Returns the result, or throws its error. Until it is there the actor handles other messages, and none of its tasks
  /// resumes. Requires: `can_wait`.
  template <class T>
  T wait(future<T> coming) {
    const auto here = std::make_shared<future<T>>();
    task_ = task_state::waits;
    std::move(coming).then([this, me = shared_from_this(), here](future<T> ready) {
      *here = std::move(ready);
      task_ = task_state::continues;
      post_function([] {});  // the actor may be busy with something else
    });
    if (task_ == task_state::waits) stack_->leave();
    task_ = task_state::none;
    return here->get();
  }

  /// The executor whose task runs on the calling thread, or null.
  static actor_executor* here() { return dynamic_cast<actor_executor*>(current()); }

 private:
  /// Whether a task is suspended on the stack.
  enum class task_state : std::uint8_t { none, waits, continues };

  /// Counts the executor as entered, for this object's lifetime.
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
  std::unique_ptr<fiber> stack_;                 ///< of tasks; null until they need it
  bool uses_stack_ = false;
  task_state task_ = task_state::none;
  bool runs_stack_ = false;
  bool is_ending_ = false;
  std::atomic<std::uint64_t> turns_ = 0;  ///< written by the actor's own thread
};

}  // namespace troupe::runtime
