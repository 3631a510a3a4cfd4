// An executor for tests: the test itself runs what was posted.

#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "troupe/executor.hpp"

namespace troupe::test {

class queue_executor final : public executor {
 public:
  void post(std::shared_ptr<runnable> what) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(what));
  }

  /// Runs `what` as code of a task would run.
  template <class F>
  void enter(F&& what) {
    const scope here(*this);
    what();
  }

  /// Runs everything that was posted. Returns how many.
  int run() {
    int count = 0;
    for (; auto next = pop(); ++count) enter([&] { next->run(); });
    return count;
  }

 private:
  std::shared_ptr<runnable> pop() {
    const std::lock_guard lock(mutex_);
    if (posted_.empty()) return nullptr;
    auto first = std::move(posted_.front());
    posted_.pop_front();
    return first;
  }

  std::mutex mutex_;
  std::deque<std::shared_ptr<runnable>> posted_;
};

}  // namespace troupe::test
