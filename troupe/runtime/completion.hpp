// Counts unfinished parts; calls back when none is left.

#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "troupe/future.hpp"

namespace troupe::runtime {

/// Counts its parts. Belongs to one thread.
class completion {
 public:
  using end = std::function<void(const std::shared_ptr<promise<>>& done)>;

  /// Begins with one part, which the code that begins the others ends. Calls `at_end` when all parts have ended.
  completion(std::shared_ptr<promise<>> done, end at_end) : done_(std::move(done)), at_end_(std::move(at_end)) {}

  void begin_part() { ++parts_; }
  void end_part() {
    if (--parts_ == 0) at_end_(done_);
  }
  /// Fails the promise; the remaining parts are ignored.
  template <class Error>
  void fail(Error&& why) const {
    done_->fail(std::forward<Error>(why));
  }

 private:
  const std::shared_ptr<promise<>> done_;
  const end at_end_;
  int parts_ = 1;
};
using completion_ptr = std::shared_ptr<completion>;

}  // namespace troupe::runtime
