#include "troupe/future.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/runtime/caller.hpp"
#include "troupe/runtime/deadline.hpp"

namespace troupe::detail {

bool future_state::suspend(std::coroutine_handle<> task, executor& on) {
  const std::lock_guard lock(mutex_);
  if (ready_) return false;
  task_ = task;
  on_ = on.weak_from_this();
  on.task_waits();
  return true;
}

void future_state::forget_task() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(task_, nullptr) == nullptr) return;
  if (const auto on = on_.lock()) on->task_waits_no_more();
}

bool future_state::has_task() const {
  const std::lock_guard lock(mutex_);
  return !ready_ && task_ != nullptr;
}

bool future_state::has_callback() const {
  const std::lock_guard lock(mutex_);
  return then_ != nullptr;
}

void future_state::call(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!ready_) {
      then_ = std::move(then);
      if (executor* const here = executor::current())
        on_ = here->weak_from_this();
      else
        on_ = runtime::outside();
      return;
    }
  }
  then();
}

void future_state::wait(std::chrono::milliseconds deadline) {
  std::condition_variable arrived;
  std::unique_lock lock(mutex_);
  if (ready_) return;
  if (executor::current() != nullptr)
    throw error(error_kind::input, "get() in a task would block the actor that runs it; co_await the future");
  blocked_ = &arrived;
  const bool in_time = arrived.wait_for(lock, runtime::bounded(deadline), [this] { return ready_.load(); });
  blocked_ = nullptr;
  if (!in_time) throw error(error_kind::deadline, fmt::format("no answer within {} ms", deadline.count()));
}

void future_state::fail(std::exception_ptr why) {
  finish([&] { failure_ = std::move(why); });
}

void future_state::finish(std::unique_lock<std::mutex> lock) {
  ready_.store(true, std::memory_order_release);
  if (blocked_ != nullptr) blocked_->notify_all();
  const auto then = std::exchange(then_, nullptr);
  const bool has_task = task_ != nullptr;
  const auto on = on_.lock();
  lock.unlock();
  try {
    if (then) then();
  } catch (...) {  // the code that delivers the result is not at fault, and may be a destructor
    if (on == nullptr) throw;
    on->callback_threw(std::current_exception());
  }
  if (has_task && on) on->post(shared_from_this());
}

/// Resumes the task on its executor, unless it has been destroyed since.
void future_state::run() noexcept {
  std::unique_lock lock(mutex_);
  const auto task = std::exchange(task_, nullptr);
  const auto on = on_.lock();
  lock.unlock();
  if (!task) return;
  if (on) on->task_waits_no_more();
  task.resume();
}

}  // namespace troupe::detail
