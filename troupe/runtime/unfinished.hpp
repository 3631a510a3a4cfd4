// What is awaited before something is over.

#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "troupe/future.hpp"

namespace troupe::runtime {

/// Counts its parts. Belongs to one thread.
class unfinished {
 public:
  using end = std::function<void(const std::shared_ptr<promise<>>& done)>;

  /// One part is there at once, which what begins the others ends. `at_end` is called when all have ended, and none
  /// failed.
  unfinished(std::shared_ptr<promise<>> done, end at_end) : done_(std::move(done)), at_end_(std::move(at_end)) {}

  void begin_part() { ++parts_; }
  void end_part() {
    if (--parts_ == 0) at_end_(done_);
  }
  /// Fails the promise; the parts that are left do not count any more.
  template <class Error>
  void fail(Error&& why) const {
    done_->fail(std::forward<Error>(why));
  }

 private:
  const std::shared_ptr<promise<>> done_;
  const end at_end_;
  int parts_ = 1;
};
using unfinished_ptr = std::shared_ptr<unfinished>;

}  // namespace troupe::runtime
