// Matrix products by cuBLASLt. Which algorithm does a product is asked once for each shape and kept, so that a product
// that comes again costs no more than its launch.

#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/cuda/cuda_device.hpp"

namespace troupe::kernels::cuda {

/// D [m, n] = op(A) op(B), all in column-major order without gaps; op(A) is [m, k], op(B) is [k, n].
struct product_shape {
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  auto operator<=>(const product_shape&) const = default;
  bool is_empty() const { return m * n * k == 0; }
};

/// Of the device's memory. The factors are of the precision's type, the rest float32.
struct product_operands {
  const void* a = nullptr;
  const void* b = nullptr;
  float* d = nullptr;
  float* bias = nullptr;  ///< of the epilogue; null if it has none
};

/// One thread at a time, and one stream.
class matrix_products {
 public:
  matrix_products(cuda_device& device, matmul_precision precision);
  ~matrix_products();
  matrix_products(const matrix_products&) = delete;
  matrix_products& operator=(const matrix_products&) = delete;

  /// Returns false, with nothing done, if the shape is empty or cuBLASLt knows no algorithm for it with this epilogue.
  /// Sums are in an order that the shape and the alignment of the operands fix.
  bool multiply(const product_shape& shape, const product_operands& operands, cudaStream_t stream);

 private:
  struct plan;
  struct plan_key {
    product_shape shape;
    std::uint32_t alignments[4];

    auto operator<=>(const plan_key&) const = default;
  };

  std::unique_ptr<plan> make_plan(const plan_key& key, const product_operands& operands) const;

  const matmul_precision precision_;
  cublasLtHandle_t handle_ = nullptr;
  std::shared_ptr<std::byte> workspace_;
  std::map<plan_key, std::unique_ptr<plan>> plans_;
};

}  // namespace troupe::kernels::cuda
