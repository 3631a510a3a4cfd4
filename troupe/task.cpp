#include "troupe/task.hpp"

namespace troupe {

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
