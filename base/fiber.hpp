// A function that can be left in its midst and gone on with later, on a stack of its own.

#pragma once

#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>

namespace troupe {

/// Runs on the thread that calls `resume`, which may be another one each time. Not thread-safe. No thread-local
/// variable may be in use where it is left.
class fiber {
 public:
  /// `body` begins with the first `resume`. Throws std::bad_alloc if there is no memory for the stack.
  explicit fiber(std::function<void()> body);
  /// If the body has not ended, unwinds its stack: `leave` does not return.
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Runs the body until it leaves or ends; what it throws is thrown here. Requires: it has not ended.
  void resume();
  bool is_over() const { return is_over_; }

  /// Leaves the body for the caller of `resume`, and returns when `resume` is called again. Requires: the body calls
  /// it.
  void leave();

 private:
  static void enter(unsigned low, unsigned high);
  void run();

  std::function<void()> body_;
  std::byte* stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  std::exception_ptr thrown_;
  bool is_over_ = false;
  bool is_unwinding_ = false;
};

}  // namespace troupe
