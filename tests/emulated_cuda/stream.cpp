// The threads behind streams, and their waits.

#include <chrono>
#include <utility>

#include "tests/emulated_cuda/capture.hpp"
#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

namespace troupe::emulated_cuda {
namespace {

/// Waits for `done`, or until the device fails, which notifies nothing: so it polls.
template <class Done>
void wait_on(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int device, const Done& done) {
  constexpr std::chrono::milliseconds look{1};
  if (configured().faults.empty()) return changed.wait(lock, done);
  while (!changed.wait_for(lock, look, done) && error_of(device) == cudaSuccess) {
  }
}

}  // namespace

void milestone::reach() {
  {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
  }
  changed_.notify_all();
}

void milestone::wait_for(int device) {
  std::unique_lock lock(mutex_);
  wait_on(changed_, lock, device, [&] { return is_reached_; });
}

bool milestone::is_reached() {
  const std::lock_guard lock(mutex_);
  return is_reached_;
}

counts& counted() {
  static counts all;
  return all;
}

int& captures() {
  static thread_local int count = 0;
  return count;
}

cudaError_t enqueue_anywhere(cudaStream_t stream, node_kind kind, work task) {
  return enqueue_mark(stream, kind, [device = device_of(stream), task = std::move(task)] {
    if (error_of(device) == cudaSuccess) task();
  });
}

cudaError_t enqueue_mark(cudaStream_t stream, node_kind kind, work task) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;  // the default stream, which no code here should use
  if (const cudaError_t code = stream->failure(); code != cudaSuccess) return code;
  if (stream->into) return add_node(*stream, kind, std::move(task));
  if (kind < node_kind::record) ++counted().direct_calls;
  stream->push(std::move(task));
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, work task) {
  if (stream != nullptr && stream->device() != current_device()) return cudaErrorInvalidResourceHandle;
  return enqueue_anywhere(stream, node_kind::kernel, std::move(task));
}

}  // namespace troupe::emulated_cuda

extern "C" std::uint64_t troupe_emulated_launches() { return troupe::emulated_cuda::counted().launches; }
extern "C" std::uint64_t troupe_emulated_waits() { return troupe::emulated_cuda::counted().waits; }
extern "C" std::uint64_t troupe_emulated_uploads() { return troupe::emulated_cuda::counted().uploads; }
extern "C" std::uint64_t troupe_emulated_graphs() { return troupe::emulated_cuda::counted().graphs; }
extern "C" std::uint64_t troupe_emulated_graphs_made() { return troupe::emulated_cuda::counted().graphs_made; }
extern "C" std::uint64_t troupe_emulated_direct_calls() { return troupe::emulated_cuda::counted().direct_calls; }
extern "C" std::uint64_t troupe_emulated_graphs_ahead() { return troupe::emulated_cuda::counted().graphs_ahead; }

CUstream_st::CUstream_st(int device) : device_(device), worker_([this] { run(); }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void CUstream_st::push(troupe::emulated_cuda::work task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void CUstream_st::wait_until_idle() {
  std::unique_lock lock(mutex_);
  troupe::emulated_cuda::wait_on(changed_, lock, device_, [&] { return tasks_.empty(); });
}

cudaError_t CUstream_st::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const troupe::emulated_cuda::work& task = tasks_.front();  // its position is stable: only this thread removes tasks
    lock.unlock();
    cudaError_t outcome = cudaSuccess;
    try {
      task();
    } catch (...) {
      outcome = cudaErrorLaunchFailure;
    }
    lock.lock();
    if (outcome != cudaSuccess) failure_ = outcome;  // later tasks still run: others may wait for their events
    tasks_.pop_front();
    if (tasks_.empty()) changed_.notify_all();
  }
}
