// A CUDA stream with its kernels. The methods are in elementwise.cu, linear.cu, ...

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/convolutions.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/matrix_products.hpp"
#include "kernels/device.hpp"
#include "kernels/device_array.hpp"

namespace troupe::kernels::cuda {

/// A stream's memory that is reused in every call.
using scratch = device_array<std::byte>;

class cuda_stream : public stream {
 public:
  /// Requires: the device is current in this thread, and outlives the stream.
  cuda_stream(cuda_device& device, matmul_precision precision, stream_priority priority);
  ~cuda_stream() override;
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  /// CUDA's handle.
  cudaStream_t handle() const { return handle_; }
  void* native() const override { return handle_; }
  cuda_device& device() const override { return device_; }
  /// Memory for the partial results of one reduction.
  std::byte* parts() const { return parts_.get(); }

  void synchronize() override;
  /// The same for destructors. Ignores errors; the next call reports them.
  void synchronize_if_possible() noexcept;
  std::unique_ptr<event> record() override;
  std::unique_ptr<time_mark> make_time_mark() override;
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
  /// Returns `bytes` of scratch memory. Keeps outgrown blocks, because captured graphs still use them.
  std::byte* grow(scratch& memory, std::size_t bytes);
  /// Returns the address of a matrix product's factor: its numbers, or those in bf16, rounded into `rounded` unless
  /// they have been rounded already.
  const void* as_factor(bool in_bf16, std::size_t count, product_factor x, scratch& rounded);
  void column_sums(std::size_t rows, std::size_t cols, const float* x, float* sums);
  /// Multiplies without an epilogue; throws if cuBLASLt has no algorithm.
  void multiply_plainly(const product_shape& shape, const product_operands& operands);
  matrix_products& products();
  /// Requires: no operand is empty.
  void convolve(const convolution_key& key, convolution_operands operands);
  /// Adds bias [channels] to y; sums x over each channel.
  void add_channel_bias(const channels_shape& shape, const float* bias, float* y);
  void channel_sums(const channels_shape& shape, const float* x, float* sums);

  cuda_device& device_;
  const matmul_precision precision_;
  cudaStream_t handle_ = nullptr;
  std::shared_ptr<std::byte> parts_;  // partial results of a reduction
  scratch first_factor_, second_factor_, partial_sums_, convolution_workspace_;
  std::vector<std::shared_ptr<std::byte>> outgrown_;
  std::unique_ptr<matrix_products> products_;
  std::unique_ptr<convolutions> convolutions_;  // null until one is used
};

}  // namespace troupe::kernels::cuda
