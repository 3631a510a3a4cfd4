// Synchronization, copies and graphs of a stream.

#include "kernels/cuda/cuda_stream.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {
namespace {

bool is_over(const cuda_device& device, cudaEvent_t event) {
  device.make_current();
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // not an error
    return false;
  }
  check(code, "cudaEventQuery");
  return true;
}

/// Returns whether the host's memory at `address` is staging memory.
bool is_pinned(const void* address) {
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, address), "cudaPointerGetAttributes");
  return found.type == cudaMemoryTypeHost;
}

/// CUDA only knows an event that is recorded during a capture as a node of the graph.
class cuda_event : public event {
 public:
  explicit cuda_event(const cuda_stream& stream) : device_(stream.device()) {
    const auto turn = device_.graphs()->take_turn();
    step_ = device_.graphs()->open_step();
    check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    const cudaError_t code = cudaEventRecord(handle_, stream.handle());
    if (code != cudaSuccess) cudaEventDestroy(handle_);
    check(code, "cudaEventRecord");
  }
  ~cuda_event() override {
    make_current_if_possible(device_);
    cudaEventDestroy(handle_);
  }
  cuda_event(const cuda_event&) = delete;
  cuda_event& operator=(const cuda_event&) = delete;

  cuda_device& device() const { return device_; }
  /// The step that captured it; null if none did.
  const captured_step* step() const { return step_.get(); }
  /// CUDA's event; if it was captured, valid only for calls captured in the same step.
  cudaEvent_t handle() const { return handle_; }
  /// CUDA's event for all other uses. Requires: its step is launched.
  cudaEvent_t launched() const { return step_ ? step_->end() : handle_; }

  bool is_over() const override { return !is_open() && cuda::is_over(device_, launched()); }

  void wait() const override {
    leave_step();
    device_.make_current();
    check(cudaEventSynchronize(launched()), "cudaEventSynchronize");
  }

  /// Launches its step, if that is open.
  void leave_step() const {
    if (is_open()) device_.graphs()->end();
  }

 private:
  bool is_open() const { return step_ && step_->is_open(); }

  cuda_device& device_;
  cudaEvent_t handle_ = nullptr;
  std::shared_ptr<const captured_step> step_;
};

class cuda_time_mark : public time_mark {
 public:
  explicit cuda_time_mark(const cuda_stream& stream) : stream_(stream.handle()), device_(stream.device()) {
    check(cudaEventCreateWithFlags(&handle_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  /// A graph that records the mark needs it until the graph has run.
  ~cuda_time_mark() override {
    try {
      if (is_open()) device_.graphs()->end();
    } catch (const device_error&) {
      // The device has failed.
    }
    make_current_if_possible(device_);
    if (step_) cudaEventSynchronize(step_->end());
    cudaEventDestroy(handle_);
  }
  cuda_time_mark(const cuda_time_mark&) = delete;
  cuda_time_mark& operator=(const cuda_time_mark&) = delete;

  /// A step's graph records it each time it runs; until the step is over, the previous time is valid.
  void record() override {
    device_.make_current();
    const auto turn = device_.graphs()->take_turn();
    step_ = device_.graphs()->open_step();
    check(
        step_ ? cudaEventRecordWithFlags(handle_, stream_, cudaEventRecordExternal) : cudaEventRecord(handle_, stream_),
        "cudaEventRecord");
  }

  bool is_over() const override { return !is_open() && cuda::is_over(device_, step_ ? step_->end() : handle_); }

  std::int64_t ns_since(const time_mark& earlier) const override {
    constexpr double ns_per_ms = 1e6;
    device_.make_current();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<const cuda_time_mark&>(earlier).handle_, handle_),
          "cudaEventElapsedTime");
    return std::llround(static_cast<double>(ms) * ns_per_ms);
  }

 private:
  bool is_open() const { return step_ && step_->is_open(); }

  const cudaStream_t stream_;
  cuda_device& device_;
  cudaEvent_t handle_ = nullptr;
  std::shared_ptr<const captured_step> step_;  ///< the step that recorded it last; null if none did
};

/// A graph. Without a handle: `enqueue` has run once, and is not captured yet.
class cuda_graph : public graph {
 public:
  explicit cuda_graph(const cuda_device& where) : where_(where) {}
  ~cuda_graph() override {
    make_current_if_possible(where_);
    if (handle) cudaGraphExecDestroy(handle);
  }
  cuda_graph(const cuda_graph&) = delete;
  cuda_graph& operator=(const cuda_graph&) = delete;

  cudaGraphExec_t handle = nullptr;

 private:
  const cuda_device& where_;
};

/// Captures the calls of `enqueue` without running them.
cudaGraphExec_t capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaGraph_t captured = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    if (captured) cudaGraphDestroy(captured);
    cudaGetLastError();  // the exception is more informative than the capture's own error
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  cudaGraphExec_t launchable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&launchable, captured, 0);
  cudaGraphDestroy(captured);
  check(code, "cudaGraphInstantiate");
  return launchable;
}

}  // namespace

cuda_stream::cuda_stream(cuda_device& device, matmul_precision precision, stream_priority priority)
    : device_(device), precision_(precision), parts_(device.allocate(reduce_blocks_max * sizeof(double))) {
  int usual = 0;
  int high = 0;
  check(cudaDeviceGetStreamPriorityRange(&usual, &high), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority == stream_priority::high ? high : usual),
        "cudaStreamCreateWithPriority");
  device_.graphs()->add(handle_);
}

cuda_stream::~cuda_stream() {
  make_current_if_possible(device_);
  device_.graphs()->remove(handle_);
  cudaStreamSynchronize(handle_);  // the pool gives its memory to other users
  cudaStreamDestroy(handle_);
}

/// With step capture it waits for an event instead: another thread may begin the next step meanwhile, and CUDA cannot
/// wait for a stream that captures.
void cuda_stream::synchronize() {
  device_.make_current();
  auto turn = device_.graphs()->take_turn();
  if (!turn) return check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
  device_.graphs()->end();
  const cuda_event here(*this);
  turn.unlock();
  here.wait();
}

void cuda_stream::synchronize_if_possible() noexcept {
  try {
    synchronize();
  } catch (const device_error&) {
    // The device has failed.
  }
}

std::unique_ptr<event> cuda_stream::record() {
  device_.make_current();
  return std::make_unique<cuda_event>(*this);
}

std::unique_ptr<time_mark> cuda_stream::make_time_mark() {
  device_.make_current();
  return std::make_unique<cuda_time_mark>(*this);
}

/// While a step is captured, its graph already waits for this device's earlier events.
void cuda_stream::wait(const event& before) {
  const auto& one = static_cast<const cuda_event&>(before);
  const bool is_of_this_device = &one.device() == &device_;
  if (!is_of_this_device) one.leave_step();
  device_.make_current();
  const auto turn = device_.graphs()->take_turn();
  const captured_step* const open = device_.graphs()->open_step().get();
  const bool is_of_this_step = open != nullptr && one.step() == open;
  if (open != nullptr && is_of_this_device && !is_of_this_step) return;
  if (!is_of_this_step) device_.graphs()->end();
  check(cudaStreamWaitEvent(handle_, is_of_this_step ? one.handle() : one.launched(), 0), "cudaStreamWaitEvent");
}

void cuda_stream::capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) {
  device_.make_current();
  const auto turn = device_.graphs()->take_turn();
  if (device_.graphs()->are_captured()) return enqueue();
  if (!captured) {
    enqueue();
    captured = std::make_unique<cuda_graph>(device_);
    return;
  }
  auto& known = static_cast<cuda_graph&>(*captured);
  if (!known.handle) known.handle = capture(handle_, enqueue);
  check(cudaGraphLaunch(known.handle, handle_), "cudaGraphLaunch");
}

void cuda_stream::copy_as(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
  device_.make_current();
  if (bytes == 0) return;
  const auto turn = device_.graphs()->take_turn();
  if (kind != cudaMemcpyDeviceToDevice && device_.graphs()->are_captured() &&
      !is_pinned(kind == cudaMemcpyHostToDevice ? from : to))
    device_.graphs()->end();  // the memory belongs to the caller, who may free it
  check(cudaMemcpyAsync(to, from, bytes, kind, handle_), "cudaMemcpyAsync");
}

std::byte* cuda_stream::grow(scratch& memory, std::size_t bytes) {
  if (bytes > memory.capacity()) {
    const std::size_t enough = std::max(bytes, memory.capacity() * 2);  // outgrown blocks add up to less than that
    outgrown_.push_back(std::exchange(memory, {}).owner());
    memory.resize(*this, enough);
  }
  return memory.data();
}

}  // namespace troupe::kernels::cuda
