// A CUDA stream, and the kernels as what it does. Its methods are spread over files by theme: elementwise.cu,
// linear.cu, ...

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/matrix_products.hpp"
#include "kernels/device.hpp"
#include "kernels/device_array.hpp"

namespace troupe::kernels::cuda {

/// Memory of a stream for what one call keeps until the next.
using scratch = device_array<std::byte>;

class cuda_stream : public stream {
 public:
  /// The device, current in this thread, must outlive it.
  cuda_stream(cuda_device& device, matmul_precision precision, stream_priority priority);
  ~cuda_stream() override;
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  /// What CUDA calls it.
  cudaStream_t handle() const { return handle_; }
  cuda_device& device() const override { return device_; }
  /// Memory for the parts of one reduction.
  std::byte* parts() const { return parts_.get(); }

  void synchronize() override;
  std::unique_ptr<event> record() override;
  void wait(const event& before) override;
  void capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) override;

  void upload(const void* host, void* to, std::size_t bytes) override {
    copy_as(host, to, bytes, cudaMemcpyHostToDevice);
  }
  void download(const void* from, void* host, std::size_t bytes) override {
    copy_as(from, host, bytes, cudaMemcpyDeviceToHost);
  }
  void copy(const void* from, void* to, std::size_t bytes) override {
    copy_as(from, to, bytes, cudaMemcpyDeviceToDevice);
  }

#define TROUPE_KERNEL override
#include "kernels/stream_kernels.inc"

 private:
  void copy_as(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind);
  /// `bytes` of scratch memory. What is outgrown stays: a graph that was captured earlier still uses it.
  std::byte* grow(scratch& memory, std::size_t bytes);
  /// A factor of a matrix product as the precision wants it: `x` itself, or rounded into `rounded`.
  const void* as_factor(std::size_t count, const float* x, scratch& rounded);
  void column_sums(std::size_t rows, std::size_t cols, const float* x, float* sums);
  /// A product that throws if there is no way to do it.
  void multiply_plainly(const product_shape& shape, const product_operands& operands);
  matrix_products& products();

  cuda_device& device_;
  const matmul_precision precision_;
  cudaStream_t handle_ = nullptr;
  std::shared_ptr<std::byte> parts_;  // of reductions
  scratch first_factor_, second_factor_, partial_sums_;
  std::vector<std::shared_ptr<std::byte>> outgrown_;
  std::unique_ptr<matrix_products> products_;
};

}  // namespace troupe::kernels::cuda
