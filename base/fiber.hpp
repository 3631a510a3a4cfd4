// A function that can be suspended and resumed later, on its own stack.

#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>

namespace troupe {

/// Runs on the thread that calls `resume`, which may differ each time. Not thread-safe. While it is suspended, caught
/// exceptions may be active, but no other thread-local variable may be in use.
class fiber {
 public:
  /// Thrown by `leave` in a body that must not continue. Code that catches all exceptions must rethrow it.
  struct unwinding {};

  /// The first `resume` begins `body`. Throws std::bad_alloc if there is no memory for the stack, or for the guard page
  /// below it.
  explicit fiber(std::function<void()> body);
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Runs the body until it leaves or ends; rethrows its exceptions. Requires: it has not ended.
  void resume();
  bool is_over() const { return is_over_; }
  /// If the body has begun and not ended, unwinds its stack: this and every later `leave` throws `unwinding`. The
  /// destructor also does this.
  void unwind();

  /// Returns from the body to the caller of `resume`; returns when `resume` is called again. Requires: the body calls
  /// it.
  void leave();

 private:
  static void enter(unsigned first, unsigned second);
  void run();
  void go_in();
  void go_out(bool for_good);

  std::function<void()> body_;
  std::byte* stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  std::exception_ptr thrown_;
  std::array<std::byte, 16> exceptions_{};  ///< active inside while it is suspended, or outside while it runs
  // For sanitizers, if there are any:
  const void* outside_bottom_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* inside_thread_ = nullptr;
  void* outside_thread_ = nullptr;
  bool is_over_ = false;
  bool is_unwinding_ = false;
};

}  // namespace troupe
