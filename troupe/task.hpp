// Coroutines that wait without blocking a thread. A task begins when it is awaited, or handed to an executor; it runs
// on that executor, one at a time with the others there. A task that is destroyed while it waits ends there: its local
// variables are destroyed, and an answer that comes later is dropped.
//
// gcc 12 destroys braced aggregates in a `co_await` expression twice. So no awaited function of this library has an
// aggregate by value; for a user's function that does, use two statements:
//
//   call c{self, name};
//   auto answer = co_await c;

#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "troupe/error.hpp"
#include "troupe/executor.hpp"

namespace troupe {

template <class T = void>
class task;

namespace detail {

class task_promise_base {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }

  struct final_awaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      const auto next = done.promise().next_;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  final_awaiter final_suspend() noexcept { return {}; }

  void unhandled_exception() noexcept { thrown_ = std::current_exception(); }

  void continue_with(std::coroutine_handle<> next) { next_ = next; }
  /// Returns whether it had been awaited before.
  bool mark_awaited() { return std::exchange(is_awaited_, true); }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::coroutine_handle<> next_;
  bool is_awaited_ = false;
  std::exception_ptr thrown_;
};

template <class T>
class task_promise final : public task_promise_base {
 public:
  task<T> get_return_object();
  template <class Value>
  void return_value(Value&& value) {
    value_.emplace(std::forward<Value>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class task_promise<void> final : public task_promise_base {
 public:
  task<void> get_return_object();
  void return_void() noexcept {}
  void take() const { rethrow(); }
};

}  // namespace detail

/// A coroutine's handle. It runs when it is awaited, on the awaiter's executor. Thread: that executor's.
template <class T>
class [[nodiscard]] task {
 public:
  using promise_type = detail::task_promise<T>;

  explicit task(std::coroutine_handle<promise_type> made) : frame_(made) {}
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  task& operator=(task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~task() {
    if (frame_) frame_.destroy();
  }

  class awaiter {
   public:
    explicit awaiter(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
    bool await_ready() const { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
      frame_.promise().continue_with(awaiting);
      return frame_;
    }
    T await_resume() { return frame_.promise().take(); }

   private:
    std::coroutine_handle<promise_type> frame_;
  };

  /// Runs the task, which must outlive the wait, and returns its value or throws its exception. Throws `error` the
  /// second time, or if the task has been moved from.
  awaiter operator co_await() && { return await(); }
  awaiter operator co_await() & { return await(); }

 private:
  awaiter await() const {
    if (!frame_ || frame_.promise().mark_awaited())
      throw error(error_kind::input,
                  "a task that has been awaited already, or moved from; call its function again for another");
    return awaiter(frame_);
  }

  std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}
inline task<void> task_promise<void>::get_return_object() {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

/// Runs a task without an awaiter.
class root_task {
 public:
  struct promise_type {
    root_task get_return_object() { return root_task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  root_task() = default;
  explicit root_task(std::coroutine_handle<promise_type> made) : frame_(made) {}
  root_task(root_task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  root_task& operator=(root_task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~root_task() {
    if (frame_) frame_.destroy();
  }

  void resume() const { frame_.resume(); }

 private:
  std::coroutine_handle<promise_type> frame_;
};

/// Runs `what`, and calls `on_end` with its exception, or null.
root_task run_root(task<> what, std::function<void(std::exception_ptr)> on_end);

}  // namespace detail

/// A task that an executor runs without an awaiter. Belongs to that executor's thread, which also destroys it: that
/// ends the task where it waits.
class running_task {
 public:
  running_task() = default;
  /// Runs `what` until it waits for the first time. Calls `on_end` once, when the task has ended, with its exception or
  /// null; `on_end` must not destroy this object.
  running_task(task<> what, std::function<void(std::exception_ptr)> on_end);

 private:
  detail::root_task root_;
};

}  // namespace troupe
