// Runs the threads of a kernel's blocks as fibers.
//
// A fiber runs the block's threads one after the other. It keeps a thread only while that has to wait; another fiber
// then continues with the remaining threads. Kernels whose threads do not wait need one fiber.

#undef _FORTIFY_SOURCE  // its checks reject a jump to another stack

#include "tests/emulated_cuda/kernels.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

thread_local uint3 threadIdx;
thread_local uint3 blockIdx;
thread_local dim3 blockDim;
thread_local dim3 gridDim;

namespace troupe::emulated_cuda {
namespace {

constexpr unsigned warp_lanes = 32;
constexpr std::size_t stack_bytes = std::size_t{64} << 10;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulated CUDA: block %u: %s\n", blockIdx.x, what);
  std::abort();
}

/// A stack; the address sanitizer is informed when a thread switches to it.
struct stack_range {
  const void* bottom = nullptr;
  std::size_t bytes = 0;

  /// Called before a jump to this stack.
  void announce() const {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(nullptr, bottom, bytes);
#endif
  }

  /// Called after a jump. Returns the stack that it left.
  static stack_range arrive() {
    stack_range left;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &left.bottom, &left.bytes);
#endif
    return left;
  }
};

struct fiber {
  ucontext_t begin{};  ///< its start, before it has run
  jmp_buf place{};     ///< where it waits: unlike a context switch, a jump needs no system call
  bool has_begun = false;
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
  unsigned thread = 0;  ///< the thread that it runs
};

/// A lane that waits at a shuffle.
struct waiting_lane {
  fiber* self = nullptr;  ///< null: it does not wait
  unsigned mask = 0;
  unsigned from = 0;
  std::uint64_t value = 0;
};

/// The fibers of one stream's thread, and the block that they run.
class block_runner {
 public:
  void run(const std::function<void()>& thread) {
    body_ = &thread;
    next_thread_ = 0;
    finished_ = 0;
    lanes_.assign(blockDim.x, {});
    while (finished_ < blockDim.x) {
      if (!ready_.empty()) {
        fiber& next = *ready_.back();
        ready_.pop_back();
        resume(next);
      } else if (next_thread_ < blockDim.x) {
        resume(idle_fiber());
      } else if (at_barrier_.size() == blockDim.x) {
        ready_.swap(at_barrier_);
      } else {
        fail(at_barrier_.empty() ? "lanes wait at a shuffle for others that do not come"
                                 : "some threads wait at __syncthreads for others that do not come");
      }
    }
  }

  void wait_at_barrier() {
    at_barrier_.push_back(running_);
    suspend();
  }

  std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned from) {
    const unsigned thread = threadIdx.x;
    const unsigned warp = thread / warp_lanes * warp_lanes;
    if (!(mask >> (thread - warp) & 1)) fail("a lane shuffles that is not in its mask");
    if (from >= warp_lanes || !(mask >> from & 1)) fail("a lane shuffles with one that is not in its mask");
    lanes_[thread] = {running_, mask, from, value};
    if (!all_wait(warp, mask)) {
      suspend();
    } else {
      exchange(warp, mask);
    }
    return lanes_[thread].value;
  }

 private:
  bool all_wait(unsigned warp, unsigned mask) const {
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      if (warp + lane >= blockDim.x) fail("a mask has lanes that the block has not");
      const waiting_lane& other = lanes_[warp + lane];
      if (!other.self || other.mask != mask) return false;
    }
    return true;
  }

  /// The last lane to arrive gives all lanes their values, and continues.
  void exchange(unsigned warp, unsigned mask) {
    std::array<std::uint64_t, warp_lanes> values{};
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
      if (mask >> lane & 1) values[lane] = lanes_[warp + lane].value;
    }
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
      if (!(mask >> lane & 1)) continue;
      waiting_lane& one = lanes_[warp + lane];
      one.value = values[one.from];
      fiber* const self = std::exchange(one.self, nullptr);
      if (self != running_) ready_.push_back(self);
    }
  }

  /// Returns a fiber without a thread.
  fiber& idle_fiber() {
    if (idle_.empty()) idle_.push_back(make_fiber());
    fiber& taken = *idle_.back();
    idle_.pop_back();
    return taken;
  }

  fiber* make_fiber() {
    fiber& made = *all_.emplace_back(std::make_unique<fiber>());
    getcontext(&made.begin);
    made.begin.uc_stack.ss_sp = made.stack.get();
    made.begin.uc_stack.ss_size = stack_bytes;
    makecontext(&made.begin, &block_runner::begin, 0);
    return &made;
  }

  static void begin();

  void run_threads() {
    scheduler_stack_ = stack_range::arrive();
    while (true) {
      while (next_thread_ < blockDim.x) {
        running_->thread = threadIdx.x = next_thread_++;
        (*body_)();
        ++finished_;
      }
      idle_.push_back(running_);
      suspend();
    }
  }

  void resume(fiber& next) {
    running_ = &next;
    threadIdx.x = next.thread;
    if (_setjmp(scheduler_) == 0) enter();
    stack_range::arrive();
  }

  [[noreturn]] void enter() {
    stack_range{running_->stack.get(), stack_bytes}.announce();
    if (running_->has_begun) _longjmp(running_->place, 1);
    running_->has_begun = true;
    setcontext(&running_->begin);
    fail("a fiber cannot be entered");
  }

  void suspend() {
    if (_setjmp(running_->place) == 0) {
      scheduler_stack_.announce();
      _longjmp(scheduler_, 1);
    }
    stack_range::arrive();
  }

  const std::function<void()>* body_ = nullptr;
  unsigned next_thread_ = 0;
  unsigned finished_ = 0;
  jmp_buf scheduler_{};
  stack_range scheduler_stack_;
  fiber* running_ = nullptr;
  std::vector<std::unique_ptr<fiber>> all_;
  std::vector<fiber*> idle_, ready_, at_barrier_;
  std::vector<waiting_lane> lanes_;
};

thread_local block_runner runner;

void block_runner::begin() { runner.run_threads(); }

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const dim3 blocks = config.gridDim;
  const dim3 threads = config.blockDim;
  if (blocks.x == 0 || blocks.x > 0x7fffffff || threads.x == 0 || threads.x > 1024)
    return cudaErrorInvalidConfiguration;
  if (blocks.y * blocks.z * threads.y * threads.z != 1) return cudaErrorInvalidConfiguration;
  ++counted().launches;
  return enqueue_kernel(config.stream, [blocks, threads, kernel = std::move(thread)] {
    gridDim = blocks;
    blockDim = threads;
    for (unsigned block = 0; block < blocks.x; ++block) {
      blockIdx.x = block;
      runner.run(kernel);
    }
  });
}

std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned from) { return runner.shuffle(mask, value, from); }

unsigned lane() { return threadIdx.x % warp_lanes; }

}  // namespace troupe::emulated_cuda

void __syncthreads() { troupe::emulated_cuda::runner.wait_at_barrier(); }
