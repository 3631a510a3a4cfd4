// A CUDA device: its memory, and its streams.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/step_capture.hpp"
#include "kernels/device.hpp"

namespace troupe::kernels::cuda {

/// Makes `device` current for the calling thread. Requires: other code that changes a thread's device restores it.
void make_current(int device);

/// The same for destructors, which may run on any thread: on a thread without a device, CUDA would create a context on
/// device 0. Ignores errors; the next call reports them.
void make_current_if_possible(int device) noexcept;
inline void make_current_if_possible(const device& where) noexcept { make_current_if_possible(where.number()); }

/// Keeps freed memory for later allocations of the same or slightly smaller size. Thread: any.
class memory_pool {
 public:
  using allocate_function = std::function<cudaError_t(void**, std::size_t)>;
  using free_function = std::function<cudaError_t(void*)>;

  memory_pool(allocate_function allocate, free_function free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}

  /// Returns at least `bytes`, or null with the error in `code`. Requires: the pool outlives the memory.
  std::shared_ptr<std::byte> allocate(std::size_t bytes, cudaError_t& code);

  /// Returns how many bytes of freed memory the pool keeps.
  std::size_t idle_bytes() const;

 private:
  std::byte* take_idle(std::size_t& size);
  void give_back(std::byte* memory, std::size_t bytes);
  bool free_idle();

  allocate_function allocate_;
  free_function free_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> idle_;
  std::size_t idle_bytes_ = 0;
};

class cuda_device : public device {
 public:
  cuda_device(int number, std::string uuid);

  int number() const override { return number_; }
  std::string uuid() const override { return uuid_; }
  memory_use memory() const override;
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  std::shared_ptr<std::byte> allocate_staging(std::size_t bytes) override;
  std::unique_ptr<stream> make_stream(matmul_precision precision, stream_priority priority) override;
  step_capture* graphs() override { return &graphs_; }

  void make_current() const { cuda::make_current(number_); }

 private:
  const int number_;
  const std::string uuid_;
  step_capture graphs_;
  memory_pool memory_;
  memory_pool staging_;
};

/// Opens device `number`. Throws `device_error` if it does not exist, if its compute capability is below 8.0, or if the
/// driver is missing or too old. Thread: any.
std::unique_ptr<device> open_cuda_device(int number);

}  // namespace troupe::kernels::cuda
