// Streams and events of the emulated CUDA runtime.

#include <chrono>
#include <utility>

#include "tests/emulated_cuda/capture.hpp"
#include "tests/emulated_cuda/faults.hpp"

using namespace troupe::emulated_cuda;

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
  if (stream->into) return troupe::emulated_cuda::note(invalidate(*stream, cudaErrorStreamCaptureUnsupported));
  ++counted().waits;
  stream->wait_until_idle();
  TROUPE_CUDA_CALL(device_of(stream));
  return troupe::emulated_cuda::note(stream->failure());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (event == nullptr || stream == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (event->into) {
    if (event->into->is_over) return troupe::emulated_cuda::note(invalidate(*stream, cudaErrorCapturedEvent));
    if (stream->into && stream->into != event->into)
      return troupe::emulated_cuda::note(invalidate(*stream, cudaErrorStreamCaptureMerge));
    if (!event->into->is_valid) return troupe::emulated_cuda::note(cudaErrorStreamCaptureInvalidated);
    if (!stream->into) event->into->streams.push_back(stream);
    stream->into = event->into;
    join_tails(stream->tail, event->tail);
    return cudaSuccess;
  }
  if (stream->into) return troupe::emulated_cuda::note(invalidate(*stream, cudaErrorStreamCaptureIsolation));
  if (!event->at) return cudaSuccess;
  return troupe::emulated_cuda::note(troupe::emulated_cuda::enqueue_mark(
      stream, node_kind::other, [at = event->at, device = stream->device()] { at->wait_for(device); }));
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

namespace {

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (event == nullptr || stream == nullptr || event->device != stream->device()) {
    return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  }
  event->into = stream->into;
  event->tail = stream->tail;
  if (stream->into)
    return troupe::emulated_cuda::note(stream->into->is_valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  event->at = std::make_shared<milestone>();
  event->graphs_before = counted().graphs.load();
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::enqueue_mark(stream, node_kind::record, [at = event->at, when = event->passed_ns] {
        *when = now_ns();
        at->reach();
      }));
}

/// As part of a graph. Until the graph reaches it, the event keeps its earlier state, which may be over.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (event == nullptr || stream == nullptr || event->device != stream->device())
    return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventRecordExternal || !stream->into) return troupe::emulated_cuda::note(cudaErrorInvalidValue);
  event->into = nullptr;
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::enqueue_mark(stream, node_kind::record, [when = event->passed_ns] { *when = now_ns(); }));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  TROUPE_CUDA_CALL(device_of(event));
  if (event == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (event->into) return troupe::emulated_cuda::note(cudaErrorCapturedEvent);
  return !event->at || event->at->is_reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (event->into) return troupe::emulated_cuda::note(cudaErrorCapturedEvent);
  ++counted().waits;
  counted().graphs_ahead += counted().graphs - event->graphs_before;
  if (event->at) event->at->wait_for(event->device);
  TROUPE_CUDA_CALL(event->device);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  TROUPE_CUDA_CALL(device_of(begin));
  for (const cudaEvent_t one : {begin, end})
    if (one == nullptr || !one->is_timed || one->device != begin->device)
      return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t one : {begin, end})
    if (*one->passed_ns == 0 || (one->at && !one->at->is_reached()))
      return troupe::emulated_cuda::note(one->at ? cudaErrorNotReady : cudaErrorInvalidResourceHandle);
  constexpr float ns_per_ms = 1e6F;
  *ms = static_cast<float>(*end->passed_ns - *begin->passed_ns) / ns_per_ms;
  return cudaSuccess;
}
