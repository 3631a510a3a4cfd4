// Shared by the parts of the emulated CUDA: the machine's state, its streams and memory.
//
// The emulation is as strict as CUDA's documentation, not as lenient as its implementation: streams are threads of
// their own, new memory is NaN, and a stream accepts no kernel while the thread's current device is another.

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

/// The kind of a stream's call as a graph node.
enum class node_kind : std::uint8_t { kernel, upload, download, copy, set, record, other };

struct capture;

/// Whether CUDA can be used: cudaSuccess, or the error for a missing device or an old driver.
cudaError_t usable();

/// The calling thread's device.
int current_device();

/// Keeps an error for cudaGetLastError; returns `code`.
cudaError_t note(cudaError_t code);

/// Runs `task`, a kernel, on `stream` after all earlier work, or adds it to the graph that the stream captures. The
/// stream must belong to the calling thread's device.
cudaError_t enqueue(cudaStream_t stream, work task);

/// The same for copies and other work that does not depend on the thread's device.
cudaError_t enqueue_anywhere(cudaStream_t stream, node_kind kind, work task);

/// The same for work that the stream reaches even if its device has failed.
cudaError_t enqueue_mark(cudaStream_t stream, node_kind kind, work task);

/// The number of captures that the calling thread has begun and that forbid it to allocate.
int& captures();

/// The identity of device `number`, the same in all processes.
std::string device_identity(int number);

enum class place : std::uint8_t { pageable, pinned, device, astray };

/// Where the bytes [address, address + bytes) lie; `astray` if only their beginning lies in memory of the runtime.
place find_place(const void* address, std::size_t bytes);

/// Counts of the process's CUDA calls, for tests: `troupe_emulated_NAME` returns each.
struct counts {
  std::atomic<std::uint64_t> launches = 0;      ///< kernel launches; a sort or a running sum counts as one
  std::atomic<std::uint64_t> waits = 0;         ///< waits of the host for a stream or an event
  std::atomic<std::uint64_t> uploads = 0;       ///< copies from the host to a device
  std::atomic<std::uint64_t> graphs = 0;        ///< graph launches
  std::atomic<std::uint64_t> graphs_ahead = 0;  ///< launched after the events that the host waited for
  std::atomic<std::uint64_t> graphs_made = 0;   ///< executable graphs; an update creates none
  std::atomic<std::uint64_t> direct_calls = 0;  ///< kernels and copies enqueued outside graphs
};
counts& counted();

/// A point in a stream's order that threads can wait for.
class milestone {
 public:
  void reach();
  /// Waits until it is reached, or until `device` fails.
  void wait_for(int device);
  bool is_reached();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

}  // namespace troupe::emulated_cuda

/// A stream: a thread that runs its tasks in order.
struct CUstream_st {
 public:
  explicit CUstream_st(int device);
  /// Finishes the remaining tasks.
  ~CUstream_st();

  int device() const { return device_; }

  void push(troupe::emulated_cuda::work task);
  /// Waits until everything is done, or until the device fails.
  void wait_until_idle();
  /// The first error so far; it stays.
  cudaError_t failure();

  /// The capture that the stream is part of, or null; and the nodes that its next call comes after.
  std::shared_ptr<troupe::emulated_cuda::capture> into;
  std::vector<std::size_t> tail;

 private:
  void run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<troupe::emulated_cuda::work> tasks_;  // the first one is running
  bool ending_ = false;
  cudaError_t failure_ = cudaSuccess;
  std::thread worker_;
};

/// An event: where it was last recorded, and when its streams reached it.
struct CUevent_st {
  /// When the device last reached it; 0: never.
  using clock_reading = std::atomic<std::int64_t>;

  int device = 0;
  bool is_timed = false;
  std::shared_ptr<clock_reading> passed_ns = std::make_shared<clock_reading>(0);
  std::atomic<std::uint64_t> graphs_before = 0;          ///< launched before it was last recorded
  std::shared_ptr<troupe::emulated_cuda::milestone> at;  ///< null: it was never recorded outside of graphs
  /// The capture in which it was last recorded, or null; and the nodes that it follows.
  std::shared_ptr<troupe::emulated_cuda::capture> into;
  std::vector<std::size_t> tail;
};
