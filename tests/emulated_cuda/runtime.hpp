// What the parts of the emulated CUDA share: the emulated machine's state, its streams and memory.
//
// The emulation is as strict as CUDA's documentation, not as lenient as its implementation: streams are threads of
// their own, new memory is NaN, a stream of another device than the thread's current one takes no kernel.

#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::emulated_cuda {

using work = std::function<void()>;

/// Whether CUDA can be used at all: no error, or that of a missing device or an old driver.
cudaError_t usable();

/// The calling thread's device.
int current_device();

/// Keeps an error for cudaGetLastError; gives back what it got.
cudaError_t note(cudaError_t code);

/// Does `task`, a kernel, on `stream` after everything before it, or adds it to the graph that the stream captures. The
/// stream must be of the calling thread's device.
cudaError_t enqueue(cudaStream_t stream, work task);

/// The same for copies and other things that do not depend on the thread's device.
cudaError_t enqueue_anywhere(cudaStream_t stream, work task);

/// The same for what a stream comes to even if its device has failed.
cudaError_t enqueue_mark(cudaStream_t stream, work task);

/// How many streams the calling thread has capture. Meanwhile it may not allocate.
int& captures();

/// The identity of device `number`, the same in all processes.
std::string device_identity(int number);

enum class place : std::uint8_t { pageable, pinned, device, astray };

/// Where the bytes [address, address + bytes) lie; `astray` if they only begin in memory that the runtime gave out.
place find_place(const void* address, std::size_t bytes);

/// What the process has asked of CUDA so far, for tests: `troupe_emulated_launches`, `troupe_emulated_waits`,
/// `troupe_emulated_uploads` and `troupe_emulated_graphs_ahead` tell it.
struct counts {
  std::atomic<std::uint64_t> launches = 0;      ///< of kernels; a sort or a running sum is one
  std::atomic<std::uint64_t> waits = 0;         ///< of the host, for a stream or an event
  std::atomic<std::uint64_t> uploads = 0;       ///< copies from the host to a device
  std::atomic<std::uint64_t> graphs = 0;        ///< launched
  std::atomic<std::uint64_t> graphs_ahead = 0;  ///< launched after the events that the host waited for
};
counts& counted();

/// A count that rises, and those who wait for it.
class milestone {
 public:
  void reach(std::uint64_t count);
  /// Waits for the count, or until `device` fails.
  void wait_for(std::uint64_t count, int device);
  bool has_reached(std::uint64_t count);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t reached_ = 0;
};

}  // namespace troupe::emulated_cuda

/// A stream: a thread that does one thing after the other.
struct CUstream_st {
 public:
  explicit CUstream_st(int device);
  /// Does what is left.
  ~CUstream_st();

  int device() const { return device_; }

  void push(troupe::emulated_cuda::work task);
  /// Waits until everything is done, or until the device fails.
  void wait_until_idle();
  /// What went wrong so far; stays.
  cudaError_t failure();

  bool capturing = false;
  std::vector<troupe::emulated_cuda::work> captured;

 private:
  void run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<troupe::emulated_cuda::work> tasks_;  // the first one is under way
  bool ending_ = false;
  cudaError_t failure_ = cudaSuccess;
  std::thread worker_;
};

/// An event: how often it was recorded, how many of these records its streams have come to, and when they came to the
/// last one.
struct CUevent_st {
  int device = 0;
  bool is_timed = false;
  std::shared_ptr<std::atomic<std::int64_t>> passed_ns = std::make_shared<std::atomic<std::int64_t>>(0);
  std::atomic<std::uint64_t> recorded = 0;
  std::atomic<std::uint64_t> graphs_before = 0;  ///< that had been launched when it was recorded last
  std::shared_ptr<troupe::emulated_cuda::milestone> over = std::make_shared<troupe::emulated_cuda::milestone>();
};
