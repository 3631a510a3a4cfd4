#include "base/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

#include "base/assert.hpp"

namespace troupe {

namespace {

constexpr std::size_t stack_bytes = std::size_t{8} << 20;  // as a thread has; only what is used takes memory
constexpr unsigned half_bits = 32;

/// Unwinds the stack of a body that is not to go on.
struct unwinding {};

/// A stack with a page below it that nobody may touch.
std::byte* make_stack() {
  void* const memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

fiber::fiber(std::function<void()> body) : body_(std::move(body)), stack_(make_stack()) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = stack_bytes;
  inside_.uc_link = nullptr;
  // makecontext passes ints only.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&fiber::enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> half_bits));
}

fiber::~fiber() {
  if (!is_over_ && body_ == nullptr) {  // it has begun
    is_unwinding_ = true;
    swapcontext(&outside_, &inside_);
    TROUPE_ASSERT(is_over_);
  }
  munmap(stack_, stack_bytes);
}

void fiber::enter(unsigned low, unsigned high) {
  const std::uintptr_t self = (std::uintptr_t{high} << half_bits) | low;
  reinterpret_cast<fiber*>(self)->run();
}

void fiber::run() {
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
  swapcontext(&inside_, &outside_);  // for good
}

void fiber::resume() {
  TROUPE_ASSERT(!is_over_);
  swapcontext(&outside_, &inside_);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void fiber::leave() {
  swapcontext(&inside_, &outside_);
  if (is_unwinding_) throw unwinding();
}

}  // namespace troupe
