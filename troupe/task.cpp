#include "troupe/task.hpp"

namespace troupe {

namespace {

/// Used only by the functions below: a task may resume on another thread in the middle of a user's function, whose code
/// would keep the address.
thread_local executor* current_executor = nullptr;

}  // namespace

executor* executor::current() { return current_executor; }
executor::scope::scope(executor& which) : before_(std::exchange(current_executor, &which)) {}
executor::scope::~scope() { current_executor = before_; }

detail::root_task detail::run_root(task<> what, std::function<void(std::exception_ptr)> on_end) {
  std::exception_ptr thrown;
  try {
    co_await what;
  } catch (...) {
    thrown = std::current_exception();
  }
  on_end(thrown);
}

running_task::running_task(task<> what, std::function<void(std::exception_ptr)> on_end)
    : root_(detail::run_root(std::move(what), std::move(on_end))) {
  root_.resume();
}

}  // namespace troupe
