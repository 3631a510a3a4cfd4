// Of the CUDA runtime: streams, events and graphs.

#include <chrono>
#include <utility>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"

using namespace troupe::emulated_cuda;

struct CUgraph_st {
  std::vector<troupe::emulated_cuda::work> tasks;
};

struct CUgraphExec_st {
  std::vector<troupe::emulated_cuda::work> tasks;
};

// -- streams ----------------------------------------------------------------------------------------------------------

constexpr int lowest_priority = 0;
constexpr int highest_priority = -5;

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  *lowest = lowest_priority;
  *highest = highest_priority;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  if (priority > lowest_priority || priority < highest_priority)
    return troupe::emulated_cuda::note(cudaErrorInvalidValue);
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  if (flags != cudaStreamNonBlocking)
    return troupe::emulated_cuda::note(cudaErrorInvalidValue);  // there is no default stream to wait for
  *stream = new CUstream_st(troupe::emulated_cuda::current_device());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (stream->capturing) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnsupported);
  ++counted().waits;
  stream->wait_until_idle();
  TROUPE_CUDA_CALL(device_of(stream));
  return troupe::emulated_cuda::note(stream->failure());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (event == nullptr || stream == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (stream->capturing) return troupe::emulated_cuda::note(cudaErrorStreamCaptureIsolation);
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::enqueue_mark(stream, [over = event->over, count = event->recorded.load(),
                                                   device = stream->device()] { over->wait_for(count, device); }));
}

// -- events -----------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  *event = new CUevent_st;
  (*event)->device = troupe::emulated_cuda::current_device();
  (*event)->is_timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TROUPE_CUDA_CALL(device_of(event));
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (event == nullptr || stream == nullptr || event->device != stream->device()) {
    return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  }
  if (stream->capturing) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnsupported);
  const std::uint64_t count = ++event->recorded;
  event->graphs_before = counted().graphs.load();
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::enqueue_mark(stream, [over = event->over, when = event->passed_ns, count] {
        *when = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
        over->reach(count);
      }));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  TROUPE_CUDA_CALL(device_of(event));
  if (event == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  return event->over->has_reached(event->recorded) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  ++counted().waits;
  counted().graphs_ahead += counted().graphs - event->graphs_before;
  event->over->wait_for(event->recorded, event->device);
  TROUPE_CUDA_CALL(event->device);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  TROUPE_CUDA_CALL(device_of(begin));
  for (const cudaEvent_t one : {begin, end})
    if (one == nullptr || !one->is_timed || one->recorded == 0 || one->device != begin->device)
      return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t one : {begin, end})
    if (!one->over->has_reached(one->recorded)) return troupe::emulated_cuda::note(cudaErrorNotReady);
  constexpr float ns_per_ms = 1e6F;
  *ms = static_cast<float>(*end->passed_ns - *begin->passed_ns) / ns_per_ms;
  return cudaSuccess;
}

// -- graphs -----------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (stream == nullptr || stream->capturing) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  stream->capturing = true;
  ++troupe::emulated_cuda::captures();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (stream == nullptr || !stream->capturing) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  stream->capturing = false;
  --troupe::emulated_cuda::captures();
  *graph = new CUgraph_st{std::exchange(stream->captured, {})};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  *executable = new CUgraphExec_st{graph->tasks};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  ++counted().graphs;
  for (const troupe::emulated_cuda::work& task : executable->tasks) {
    if (const cudaError_t code = troupe::emulated_cuda::enqueue_anywhere(stream, task); code != cudaSuccess)
      return troupe::emulated_cuda::note(code);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  delete executable;
  return cudaSuccess;
}
