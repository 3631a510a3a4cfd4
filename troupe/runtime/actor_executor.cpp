#include "troupe/runtime/actor_executor.hpp"

#include "actors/inline_execution.hpp"

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
  if (const auto actor = caf::actor_cast<caf::strong_actor_ptr>(actor_))
    actors::run_in(actor, [me = shared_from_this(), what = std::move(what)] {
      static_cast<actor_executor&>(*me).enter([&] { what->run(); });
    });
}

void actor_executor::post_function(std::function<void()> what) {
  post(std::make_shared<function_runnable>(std::move(what)));
}

void actor_executor::drain() {
  while (!ready_.empty()) {
    const auto next = std::move(ready_.front());
    ready_.pop_front();
    next->run();
  }
}

}  // namespace troupe::runtime
