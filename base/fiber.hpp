// A function that can be left in its midst and gone on with later, on a stack of its own.

#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>

namespace troupe {

/// Runs on the thread that calls `resume`, which may be another one each time. Not thread-safe. Where it is left,
/// exceptions may be in hand, but no other thread-local variable in use.
class fiber {
 public:
  /// What `leave` throws in a body that is not to go on. Whoever catches everything lets it pass.
  struct unwinding {};

  /// `body` begins with the first `resume`. Throws std::bad_alloc if there is no memory for the stack, or no room for
  /// the page below it that nobody may touch.
  explicit fiber(std::function<void()> body);
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Runs the body until it leaves or ends; what it throws is thrown here. Requires: it has not ended.
  void resume();
  bool is_over() const { return is_over_; }
  /// If the body has begun and not ended, unwinds its stack: `leave` throws `unwinding`, then and always. So does the
  /// destructor.
  void unwind();

  /// Leaves the body for the caller of `resume`, and returns when `resume` is called again. Requires: the body calls
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
  std::array<std::byte, 16> exceptions_{};  ///< in hand inside, while it is left, or outside, while it runs
  // What sanitizers know of it, if there are any:
  const void* outside_bottom_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* inside_thread_ = nullptr;
  void* outside_thread_ = nullptr;
  bool is_over_ = false;
  bool is_unwinding_ = false;
};

}  // namespace troupe
