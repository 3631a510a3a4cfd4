// Executors resume tasks, one at a time. A trainer is an executor, on the thread that its actor currently runs on.

#pragma once

#include <cstddef>
#include <exception>
#include <memory>

namespace troupe {

/// Work for an executor.
class runnable {
 public:
  virtual ~runnable() = default;
  virtual void run() noexcept = 0;
};

/// Runs tasks one at a time.
class executor : public std::enable_shared_from_this<executor> {
 public:
  virtual ~executor() = default;

  /// Runs `what` later, in the order of the posts, never two at a time. Drops it once the executor has ended. Thread:
  /// any.
  virtual void post(std::shared_ptr<runnable> what) = 0;

  /// Handles an exception thrown by a callback that one of its tasks gave to a future. Thread: any.
  virtual void callback_threw(const std::exception_ptr& thrown) { std::rethrow_exception(thrown); }

  /// How many of its tasks wait for a future. Thread: the one of its tasks.
  std::size_t waiting_tasks() const { return waiting_tasks_; }
  /// Count a waiting task up or down.
  void task_waits() { ++waiting_tasks_; }
  void task_waits_no_more() { --waiting_tasks_; }

  /// Returns the executor whose tasks the calling thread runs; null if it runs none.
  static executor* current();

  /// Marks the calling thread as running tasks of `which`, for this object's lifetime.
  class scope {
   public:
    explicit scope(executor& which);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    executor* before_;
  };

 private:
  std::size_t waiting_tasks_ = 0;
};

}  // namespace troupe
