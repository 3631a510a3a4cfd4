// Where tasks run: an executor resumes them, one at a time. A trainer is one, on the thread that its actor has at the
// moment.

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

  /// Has `what` run later, after what was posted before, never two at a time. Once the executor has ended, drops it.
  /// Thread: any.
  virtual void post(std::shared_ptr<runnable> what) = 0;

  /// A callback that one of its tasks gave to a future threw that. Thread: any.
  virtual void callback_threw(const std::exception_ptr& thrown) { std::rethrow_exception(thrown); }

  /// How many of its tasks wait for a future. Thread: that of its tasks.
  std::size_t waiting_tasks() const { return waiting_tasks_; }
  /// One more waits, or one less.
  void task_waits() { ++waiting_tasks_; }
  void task_waits_no_more() { --waiting_tasks_; }

  /// Returns the executor that the calling thread runs tasks of; null: none.
  static executor* current();

  /// The calling thread runs tasks of `which` during the lifetime of this object.
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
