// The result of a remote call, which arrives later. Each promise has one future, whose result is read in one way:
// `co_await` in a task, `get` on a thread of the user's own, or `then`.
//
// The value is moved to the reader. A promise that is dropped without a value gives the error `dropped`. A future that
// is dropped, or a task that is destroyed while it waits, discards the value.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "troupe/error.hpp"
#include "troupe/executor.hpp"

namespace troupe {

/// The timeout of `get`, unless it is given one.
inline constexpr std::chrono::milliseconds default_deadline{300'000};

namespace detail {

struct nothing {};
template <class T>
using value_of = std::conditional_t<std::is_void_v<T>, nothing, T>;

/// The state that a promise and its future share, except the value. Thread: any.
class future_state : public runnable, public std::enable_shared_from_this<future_state> {
 public:
  /// Resumes `task` on its executor when there is a result. Returns false if there is one already.
  bool suspend(std::coroutine_handle<> task, executor& on);
  /// Forgets the suspended task, which is being destroyed.
  void forget_task();
  /// Calls `then` when there is a result: on the promise's thread, or at once here.
  void call(std::function<void()> then);
  /// Blocks until there is a result. Throws after the deadline, or if the calling thread runs tasks.
  void wait(std::chrono::milliseconds deadline);

  void fail(std::exception_ptr why);
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }
  /// Whether a task or a callback waits for the result.
  bool has_task() const;
  bool has_callback() const;
  /// Called when a task that awaited it gets its result.
  void mark_awaited() { is_awaited_ = true; }
  bool was_awaited() const { return is_awaited_; }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  void run() noexcept final;

 protected:
  /// Stores a result by `store`, and wakes the waiter. Does nothing if there is a result already.
  template <class F>
  void finish(F&& store) {
    const auto kept = shared_from_this();  // a thread that finds it ready may drop it before this returns
    std::unique_lock lock(mutex_);
    if (ready_) return;
    store();
    finish(std::move(lock));
  }

 private:
  void finish(std::unique_lock<std::mutex> lock);

  mutable std::mutex mutex_;
  std::atomic<bool> ready_ = false;  ///< set under the mutex, after the result
  std::atomic<bool> is_awaited_ = false;
  std::exception_ptr failure_;
  std::coroutine_handle<> task_;
  std::weak_ptr<executor> on_;
  std::function<void()> then_;
  std::condition_variable* blocked_ = nullptr;
};

template <class T>
class state_of final : public future_state {
 public:
  void set(value_of<T> value) {
    finish([&] { value_.emplace(std::move(value)); });
  }

  T take() {
    rethrow();
    if constexpr (!std::is_void_v<T>) return std::move(*value_);
  }

 private:
  std::optional<value_of<T>> value_;
};

}  // namespace detail

/// A result that arrives later, from one promise, for one reader. Thread: one at a time.
template <class T = void>
class [[nodiscard]] future {
 public:
  future() = default;
  explicit future(std::shared_ptr<detail::state_of<T>> state) : state_(std::move(state)) {}
  future(future&&) noexcept = default;
  future& operator=(future&&) noexcept = default;

  /// Returns whether it has a result that has not been read.
  bool is_ready() const { return state_ && state_->is_ready(); }

  /// Blocks until the result is there, and returns it or throws its error; throws the error `deadline` if it is late:
  /// then `get` may be called again. Not for threads that run tasks, which must `co_await`.
  T get(std::chrono::milliseconds deadline = default_deadline) {
    check();
    state_->wait(deadline);
    return std::exchange(state_, nullptr)->take();
  }

  /// Calls `use` with this future once the result is there: at once, or later on the thread that delivers it, which
  /// must not be blocked. An exception of `use` leaves `then` if it is called at once. Later, it ends the run; outside
  /// of a run it leaves the promise's `set` or `fail`.
  template <class F>
  void then(F use) && {
    check();
    auto state = std::exchange(state_, nullptr);
    auto* shared = state.get();
    shared->call([state = std::move(state), use = std::move(use)]() mutable { use(future(std::move(state))); });
  }

  /// Waits in a task.
  class awaiter {
   public:
    explicit awaiter(std::shared_ptr<detail::state_of<T>> state) : state_(std::move(state)) {}
    awaiter(const awaiter&) = delete;
    awaiter& operator=(const awaiter&) = delete;
    ~awaiter() {
      if (state_) state_->forget_task();
    }

    bool await_ready() const { return state_->is_ready(); }
    bool await_suspend(std::coroutine_handle<> task) { return state_->suspend(task, *executor::current()); }
    T await_resume() {
      state_->mark_awaited();
      return std::exchange(state_, nullptr)->take();
    }

   private:
    std::shared_ptr<detail::state_of<T>> state_;
  };

  awaiter operator co_await() && {
    check();
    return awaiter(std::exchange(state_, nullptr));
  }

 private:
  /// Throws if the result was read already, or if there is no promise.
  void check() const {
    if (!state_) throw error(error_kind::input, "a future that has been taken already, or was never one; ask again");
  }

  std::shared_ptr<detail::state_of<T>> state_;
};

/// Gives its future a result or an error. Without either, its destructor gives the error `dropped`. Thread: one at a
/// time.
template <class T = void>
class promise {
 public:
  promise() : state_(std::make_shared<detail::state_of<T>>()) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    drop();
    state_ = std::move(other.state_);
    return *this;
  }
  ~promise() { drop(); }

  /// Call once.
  future<T> get_future() const { return future<T>(state_); }

  /// Only the first result counts. Thread: any.
  template <class... Value>
  void set(Value&&... value) const {
    state_->set(detail::value_of<T>(std::forward<Value>(value)...));
  }
  void fail(std::exception_ptr why) const { state_->fail(std::move(why)); }
  /// The state shared with its future, which knows whether that was awaited.
  std::shared_ptr<const detail::future_state> state() const { return state_; }
  template <class Error>
  void fail(Error why) const {
    fail(std::make_exception_ptr(std::move(why)));
  }

 private:
  void drop() noexcept {
    if (!state_ || state_->is_ready()) return;
    try {
      fail(error(error_kind::dropped, "there will be no answer: the actor that owed it has ended"));
    } catch (...) {  // a callback threw, and no run is under way that this could end
    }
  }

  std::shared_ptr<detail::state_of<T>> state_;
};

}  // namespace troupe
