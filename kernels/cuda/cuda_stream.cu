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

class cuda_event : public event {
 public:
  explicit cuda_event(const cuda_stream& stream) : device_(stream.device()) {
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

  cudaEvent_t handle() const { return handle_; }

  bool is_over() const override { return cuda::is_over(device_, handle_); }

  void wait() const override {
    device_.make_current();
    check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }

 private:
  const cuda_device& device_;
  cudaEvent_t handle_ = nullptr;
};

class cuda_time_mark : public time_mark {
 public:
  explicit cuda_time_mark(const cuda_stream& stream) : stream_(stream.handle()), device_(stream.device()) {
    check(cudaEventCreateWithFlags(&handle_, cudaEventDefault), "cudaEventCreateWithFlags");
  }
  ~cuda_time_mark() override {
    make_current_if_possible(device_);
    cudaEventDestroy(handle_);
  }
  cuda_time_mark(const cuda_time_mark&) = delete;
  cuda_time_mark& operator=(const cuda_time_mark&) = delete;

  void record() override {
    device_.make_current();
    check(cudaEventRecord(handle_, stream_), "cudaEventRecord");
  }

  bool is_over() const override { return cuda::is_over(device_, handle_); }

  std::int64_t ns_since(const time_mark& earlier) const override {
    constexpr double ns_per_ms = 1e6;
    device_.make_current();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<const cuda_time_mark&>(earlier).handle_, handle_),
          "cudaEventElapsedTime");
    return std::llround(static_cast<double>(ms) * ns_per_ms);
  }

 private:
  const cudaStream_t stream_;
  const cuda_device& device_;
  cudaEvent_t handle_ = nullptr;
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
    cudaGetLastError();  // the exception says more than the capture's own error
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
}

cuda_stream::~cuda_stream() {
  make_current_if_possible(device_);
  cudaStreamSynchronize(handle_);  // the pool gives its memory to others
  cudaStreamDestroy(handle_);
}

void cuda_stream::synchronize() {
  device_.make_current();
  check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
}

std::unique_ptr<event> cuda_stream::record() {
  device_.make_current();
  return std::make_unique<cuda_event>(*this);
}

std::unique_ptr<time_mark> cuda_stream::make_time_mark() {
  device_.make_current();
  return std::make_unique<cuda_time_mark>(*this);
}

void cuda_stream::wait(const event& before) {
  device_.make_current();
  check(cudaStreamWaitEvent(handle_, static_cast<const cuda_event&>(before).handle(), 0), "cudaStreamWaitEvent");
}

void cuda_stream::capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) {
  device_.make_current();
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
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, handle_), "cudaMemcpyAsync");
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
