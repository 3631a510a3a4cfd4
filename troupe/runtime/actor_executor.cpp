#include "troupe/runtime/actor_executor.hpp"

#include "actors/common/inline_execution.hpp"
#include "troupe/runtime/caller.hpp"

namespace troupe::runtime {

namespace {

class function_runnable final : public runnable {
 public:
  explicit function_runnable(std::function<void()> what) : what_(std::move(what)) {}
  void run() noexcept override { what_(); }

 private:
  std::function<void()> what_;
};

}  // namespace

void actor_executor::post(std::shared_ptr<runnable> what) {
  if (current() == this) return ready_.push_back(std::move(what));
  actors::run_in(actor_, [me = shared_from_this(), what = std::move(what)] {
    static_cast<actor_executor&>(*me).enter([&] { what->run(); });
  });
}

void actor_executor::post_function(std::function<void()> what) {
  post(std::make_shared<function_runnable>(std::move(what)));
}

void actor_executor::callback_threw(const std::exception_ptr& thrown) {
  if (current() != this) return post_function([this, thrown] { caller_.callback_threw(thrown); });
  if (!is_ending_) caller_.callback_threw(thrown);
}

void actor_executor::use_own_stack(bool wanted) {
  uses_stack_ = wanted;
  if (!wanted || stack_) return;
  stack_ = std::make_unique<fiber>([this] {
    while (true) {
      run_ready();
      stack_->leave();
    }
  });
}

void actor_executor::drain() {
  if (!uses_stack_ && task_ == task_state::none) return run_ready();
  if (task_ == task_state::waits || (task_ == task_state::none && ready_.empty())) return;
  runs_stack_ = true;
  stack_->resume();
  runs_stack_ = false;
}

void actor_executor::run_ready() {
  while (!ready_.empty() && !is_ending_) {
    const auto next = std::move(ready_.front());
    ready_.pop_front();
    next->run();
  }
}

void actor_executor::end_stack() {
  const scope here(*this);
  is_ending_ = runs_stack_ = true;
  if (stack_) stack_->unwind();
}

}  // namespace troupe::runtime
