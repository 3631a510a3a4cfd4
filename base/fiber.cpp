#include "base/fiber.hpp"

#include <cxxabi.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>
#include <span>
#include <utility>

#include "base/assert.hpp"

// Sanitizers must know every change of the stack. Programs without them have null here.
#pragma weak __asan_unpoison_memory_region
#pragma weak __sanitizer_start_switch_fiber
#pragma weak __sanitizer_finish_switch_fiber
#pragma weak __tsan_create_fiber
#pragma weak __tsan_destroy_fiber
#pragma weak __tsan_get_current_fiber
#pragma weak __tsan_switch_to_fiber

namespace troupe {

namespace {

constexpr std::size_t stack_bytes = std::size_t{8} << 20;  // as a thread has; untouched pages use no memory
using halves = std::array<unsigned, 2>;                    // of a pointer: makecontext passes ints only

/// Returns a stack with a guard page below it.
std::byte* make_stack() {
  void* const memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE) != 0) {
    munmap(memory, stack_bytes);
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(memory);
}

/// The calling thread's active caught exceptions: a list and a count, by the C++ ABI.
std::byte* exceptions_in_hand() { return reinterpret_cast<std::byte*>(abi::__cxa_get_globals()); }

/// `keeps`: the address sanitizer's data of the stack that is left; null if that stack ends.
void announce_start(void** keeps, const void* bottom, std::size_t bytes, void* thread) {
  if (__sanitizer_start_switch_fiber != nullptr) __sanitizer_start_switch_fiber(keeps, bottom, bytes);
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(thread, 0);
}

void announce_end(void* kept, const void** bottom, std::size_t* bytes) {
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(kept, bottom, bytes);
}

}  // namespace

fiber::fiber(std::function<void()> body) : body_(std::move(body)), stack_(make_stack()) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = stack_bytes;
  inside_.uc_link = nullptr;
  const auto self = std::bit_cast<halves>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&fiber::enter), 2, self[0], self[1]);
  if (__tsan_create_fiber != nullptr) inside_thread_ = __tsan_create_fiber(0);
}

void fiber::unwind() {
  if (is_over_ || body_ != nullptr) return;  // the body has not begun
  is_unwinding_ = true;
  go_in();
  TROUPE_ASSERT(is_over_);
}

fiber::~fiber() {
  unwind();
  if (__tsan_destroy_fiber != nullptr) __tsan_destroy_fiber(inside_thread_);
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(stack_, stack_bytes);
  munmap(stack_, stack_bytes);
}

void fiber::enter(unsigned first, unsigned second) { std::bit_cast<fiber*>(halves{first, second})->run(); }

void fiber::run() {
  announce_end(nullptr, &outside_bottom_, &outside_bytes_);
  {
    const std::function<void()> body = std::exchange(body_, nullptr);
    try {
      body();
    } catch (const unwinding&) {
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  is_over_ = true;
  go_out(true);
}

/// The thread is the same before and after, unlike in the body.
void fiber::go_in() {
  std::byte* const in_hand = exceptions_in_hand();
  std::ranges::swap_ranges(exceptions_, std::span(in_hand, exceptions_.size()));
  if (__tsan_get_current_fiber != nullptr) outside_thread_ = __tsan_get_current_fiber();
  void* kept = nullptr;
  announce_start(&kept, stack_, stack_bytes, inside_thread_);
  swapcontext(&outside_, &inside_);
  announce_end(kept, nullptr, nullptr);
  std::ranges::swap_ranges(exceptions_, std::span(in_hand, exceptions_.size()));
}

void fiber::go_out(bool for_good) {
  void* kept = nullptr;
  announce_start(for_good ? nullptr : &kept, outside_bottom_, outside_bytes_, outside_thread_);
  swapcontext(&inside_, &outside_);
  announce_end(kept, &outside_bottom_, &outside_bytes_);
}

void fiber::resume() {
  TROUPE_ASSERT(!is_over_);
  go_in();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void fiber::leave() {
  if (!is_unwinding_) go_out(false);
  if (is_unwinding_) throw unwinding();
}

}  // namespace troupe
