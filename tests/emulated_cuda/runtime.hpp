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

/// What a call of a stream is, as a graph's node.
enum class node_kind : std::uint8_t { kernel, upload, download, copy, set, record, other };

struct capture;

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
cudaError_t enqueue_anywhere(cudaStream_t stream, node_kind kind, work task);

/// The same for what a stream comes to even if its device has failed.
cudaError_t enqueue_mark(cudaStream_t stream, node_kind kind, work task);

/// How many captures the calling thread has begun that forbid it to allocate.
int& captures();

/// The identity of device `number`, the same in all processes.
std::string device_identity(int number);

enum class place : std::uint8_t { pageable, pinned, device, astray };

/// Where the bytes [address, address + bytes) lie; `astray` if they only begin in memory that the runtime gave out.
place find_place(const void* address, std::size_t bytes);

/// What the process has asked of CUDA so far, for tests: `troupe_emulated_NAME` tells each.
struct counts {
  std::atomic<std::uint64_t> launches = 0;      ///< of kernels; a sort or a running sum is one
  std::atomic<std::uint64_t> waits = 0;         ///< of the host, for a stream or an event
  std::atomic<std::uint64_t> uploads = 0;       ///< copies from the host to a device
  std::atomic<std::uint64_t> graphs = 0;        ///< launched
  std::atomic<std::uint64_t> graphs_ahead = 0;  ///< launched after the events that the host waited for
  std::atomic<std::uint64_t> graphs_made = 0;   ///< executable ones; an update makes none
  std::atomic<std::uint64_t> direct_calls = 0;  ///< kernels and copies that were put on a stream outside of a graph
};
counts& counted();

/// A point in a stream's order, and those who wait for it.
class milestone {
 public:
  void reach();
  /// Waits for it, or until `device` fails.
  void wait_for(int device);
  bool is_reached();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
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

  /// The capture that the stream is part of; null: none. And the nodes that its next call comes after.
  std::shared_ptr<troupe::emulated_cuda::capture> into;
  std::vector<std::size_t> tail;

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

/// An event: where it was recorded last, and when its streams came to it.
struct CUevent_st {
  /// When the device came to it last; 0: never.
  using clock_reading = std::atomic<std::int64_t>;

  int device = 0;
  bool is_timed = false;
  std::shared_ptr<clock_reading> passed_ns = std::make_shared<clock_reading>(0);
  std::atomic<std::uint64_t> graphs_before = 0;          ///< that had been launched when it was recorded last
  std::shared_ptr<troupe::emulated_cuda::milestone> at;  ///< null: it was never recorded outside of graphs
  /// The capture that it was recorded in last; null: none. And the nodes that it is behind.
  std::shared_ptr<troupe::emulated_cuda::capture> into;
  std::vector<std::size_t> tail;
};
