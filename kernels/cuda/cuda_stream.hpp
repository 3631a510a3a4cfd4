// A CUDA stream, and the kernels as what it does. Its methods are spread over files by theme: elementwise.cu,
// linear.cu,
// ...

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_device.hpp"
#include "kernels/cuda/matrix_products.hpp"
#include "kernels/device.hpp"

namespace troupe::kernels::cuda {

/// Memory of a stream that grows.
struct scratch {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes = 0;
};

class cuda_stream : public stream {
 public:
  /// The device, current in this thread, must outlive it.
  cuda_stream(cuda_device& device, matmul_precision precision, stream_priority priority);
  ~cuda_stream() override;
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  /// What CUDA calls it.
  cudaStream_t handle() const { return handle_; }
  cuda_device& where() const override { return device_; }

  void synchronize() override;
  std::unique_ptr<event> record() override;
  void wait(const event& before) override;
  void repeat(std::unique_ptr<graph>& learned, const std::function<void()>& enqueue) override;

  void upload(const void* host, void* to, std::size_t bytes) override;
  void download(const void* from, void* host, std::size_t bytes) override;
  void copy(const void* from, void* to, std::size_t bytes) override;
  void copy_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) override;
  void add_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) override;
  void fill(std::size_t count, float value, float* x) override;
  void multiply(std::size_t count, float factor, float* x) override;

  void relu_backward(std::size_t count, const float* y, const float* grad_y, float* grad_x) override;
  void sum_in_rank_order(std::span<const float* const> in, std::size_t count, float scale, float* out) override;
  void squared_norm(std::size_t count, const float* x, double* result) override;
  void find_non_finite(std::size_t count, const float* x, non_finite* result) override;

  void linear_forward(std::size_t batch, std::size_t in, std::size_t out, const float* x, const float* weight,
                      const float* bias, activation then, float* y) override;
  void linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, const float* x,
                                  const float* grad_y, float* grad_weight, float* grad_bias) override;
  void linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, const float* weight,
                             const float* grad_y, float* grad_x) override;

  void pairwise_dots(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                     row_matrix<float> dots) override;
  void pairwise_dots_backward(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                              row_matrix<const float> grad_dots, std::span<const row_matrix<float>> grad_x) override;

  void softmax_cross_entropy(std::size_t batch, std::size_t classes, const float* logits, const std::int64_t* target,
                             float* grad, double* loss) override;
  void bce_with_logits(std::size_t batch, std::size_t outputs, const float* logits, const float* target, float* grad,
                       double* loss) override;
  void mean_squared_error(std::size_t batch, std::size_t outputs, const float* y, const float* target, float* grad,
                          double* loss) override;

  void update_dense(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
                    const float* grad) override;

  void embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags, float* out,
                             std::size_t out_stride) override;
  void gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices, float* out) override;
  std::unique_ptr<table_gradient> make_table_gradient() override;

 private:
  /// `bytes` of scratch memory. What is outgrown stays: a graph that was learned earlier still uses it.
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
