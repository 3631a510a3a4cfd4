// Matrix products by cuBLASLt. The algorithm for a shape is chosen once and cached, so that later products cost only
// their launch.

#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/cuda/cuda_device.hpp"

namespace troupe::kernels::cuda {

/// D [m, n] = op(A) op(B), column-major without gaps; op(A) is [m, k], op(B) is [k, n].
struct product_shape {
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  bool in_bf16 = false;  ///< the type of the factors; else they are float32, rounded within the product if to tf32
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::size_t count = 1;  ///< the number of products of this shape; their matrices are consecutive

  auto operator<=>(const product_shape&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
  bool is_empty() const { return m * n * k * count == 0; }
};

/// Device pointers. Everything except the factors and the mask is float32.
struct product_operands {
  const void* a = nullptr;
  const void* b = nullptr;
  float* d = nullptr;
  float* bias = nullptr;      ///< for the epilogue; null if it has none
  std::byte* mask = nullptr;  ///< for the epilogue: n columns of `relu_mask_bits(m)` bits; null if it has none
};

/// Thread: one at a time. Requires: all calls use the same stream.
class matrix_products {
 public:
  matrix_products(cuda_device& device, matmul_precision precision);
  ~matrix_products();
  matrix_products(const matrix_products&) = delete;
  matrix_products& operator=(const matrix_products&) = delete;

  /// Enqueues a product. Returns false, and does nothing, if the shape is empty or cuBLASLt has no algorithm for it
  /// with this epilogue. The order of sums depends on the shape and the alignment of the operands only.
  bool multiply(const product_shape& shape, const product_operands& operands, cudaStream_t stream);

 private:
  struct plan;
  struct plan_key {
    product_shape shape;
    std::uint32_t alignments[5];

    auto operator<=>(const plan_key&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
  };

  std::unique_ptr<plan> make_plan(const plan_key& key, const product_operands& operands) const;

  cuda_device& device_;
  const matmul_precision precision_;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<std::byte> workspace_;
  std::map<plan_key, std::unique_ptr<plan>> plans_;
};

}  // namespace troupe::kernels::cuda
