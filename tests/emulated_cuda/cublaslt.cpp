// cuBLASLt: column-major matrix products of float32 or bfloat16 factors, with their epilogues.

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/rounding.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

using namespace troupe::emulated_cuda;

struct cublasLtContext {
  int device = 0;
};

namespace {

/// The contents of the opaque types, stored in their memory.
struct product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a_form = CUBLAS_OP_N;
  cublasOperation_t b_form = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float* bias = nullptr;
  std::uint8_t* mask = nullptr;  ///< the auxiliary buffer
  std::int64_t mask_bits = 0;    ///< its leading dimension
};

struct layout {
  cudaDataType_t type = CUDA_R_32F;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t stride = 0;  ///< between columns
  std::int32_t count = 1;
  std::int64_t offset = 0;  ///< between matrices

  std::size_t size() const { return type == CUDA_R_16BF ? 2 : 4; }
  std::size_t bytes() const {
    return size() * (rows == 0 || cols == 0 ? 0 : place(count - 1) + (cols - 1) * stride + rows);
  }
  /// Returns the index of the first number of matrix `number`.
  std::size_t place(std::int32_t number) const { return static_cast<std::size_t>(number * offset); }
};

template <class Content, class Opaque>
const Content& content_of(const Opaque* descriptor) {
  return *reinterpret_cast<const Content*>(descriptor);
}

bool has(cublasLtEpilogue_t all, int part) { return (all & part) != 0; }

/// The bits of epilogues with a mask of a ReLU's positive outputs, and of those that read the mask.
constexpr int has_mask = CUBLASLT_EPILOGUE_RELU_AUX & CUBLASLT_EPILOGUE_DRELU;
constexpr int reads_mask = CUBLASLT_EPILOGUE_DRELU & ~has_mask;

// -- numbers ----------------------------------------------------------------------------------------------------------

float factor(const void* matrix, const layout& as, std::size_t row, std::size_t col, cublasComputeType_t compute) {
  const std::size_t place = col * as.stride + row;
  if (as.type == CUDA_R_16BF) {
    const std::uint32_t bits = static_cast<const std::uint16_t*>(matrix)[place];
    return std::bit_cast<float>(bits << 16);
  }
  const float x = static_cast<const float*>(matrix)[place];
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return round_to(x, tf32_bits);
  if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) return round_to(x, bf16_bits);
  return x;
}

/// Returns the matrix column by column, transposed if the operation asks for it.
std::vector<float> packed(const void* matrix, const layout& as, cublasOperation_t form, cublasComputeType_t compute) {
  const bool plain = form == CUBLAS_OP_N;
  const std::size_t rows = plain ? as.rows : as.cols;
  const std::size_t cols = plain ? as.cols : as.rows;
  std::vector<float> out(rows * cols);
  for (std::size_t c = 0; c < cols; ++c) {
    for (std::size_t r = 0; r < rows; ++r) {
      out[c * rows + r] = plain ? factor(matrix, as, r, c, compute) : factor(matrix, as, c, r, compute);
    }
  }
  return out;
}

struct operands {
  const void* a;
  const void* b;
  const float* c;
  float* d;
  layout a_layout, b_layout, c_layout, d_layout;
  float alpha;
  float beta;
};

void finish_column(const product& how, const operands& on, std::size_t col, const std::vector<float>& sums) {
  for (std::size_t row = 0; row < sums.size(); ++row) {
    float y = on.alpha * sums[row];
    if (on.beta != 0) y += on.beta * on.c[col * on.c_layout.stride + row];
    if (has(how.epilogue, CUBLASLT_EPILOGUE_BIAS)) y += how.bias[row];
    const bool passes = !(y < 0);  // like the masks of CUTLASS's kernels: 0 and NaN pass
    if (has(how.epilogue, CUBLASLT_EPILOGUE_RELU) && y < 0) y = 0;
    if (has(how.epilogue, has_mask)) {
      const std::size_t bit = col * static_cast<std::size_t>(how.mask_bits) + row;
      std::uint8_t& byte = how.mask[bit / 8];
      const auto of_row = static_cast<std::uint8_t>(1U << bit % 8);
      if (has(how.epilogue, reads_mask)) {
        if ((byte & of_row) == 0) y = 0;
      } else {
        byte = static_cast<std::uint8_t>(passes ? byte | of_row : byte & ~of_row);
      }
    }
    on.d[col * on.d_layout.stride + row] = y;
  }
}

void multiply_one(const product& how, const operands& on) {
  const std::vector<float> a = packed(on.a, on.a_layout, how.a_form, how.compute);
  const std::vector<float> b = packed(on.b, on.b_layout, how.b_form, how.compute);
  const std::size_t m = on.d_layout.rows;
  const std::size_t n = on.d_layout.cols;
  const std::size_t inner = how.a_form == CUBLAS_OP_N ? on.a_layout.cols : on.a_layout.rows;
  std::vector<float> sums(m);
  for (std::size_t col = 0; col < n; ++col) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::size_t k = 0; k < inner; ++k) {
      const float by = b[col * inner + k];
      for (std::size_t row = 0; row < m; ++row) sums[row] += a[k * m + row] * by;
    }
    finish_column(how, on, col, sums);
  }
  if (has(how.epilogue, CUBLASLT_EPILOGUE_BGRADA)) {
    std::fill_n(how.bias, m, 0.0F);
    for (std::size_t i = 0; i < a.size(); ++i) how.bias[i % m] += a[i];
  }
  if (has(how.epilogue, CUBLASLT_EPILOGUE_BGRADB)) {
    std::fill_n(how.bias, n, 0.0F);
    for (std::size_t i = 0; i < b.size(); ++i) how.bias[i / inner] += b[i];
  }
}

void multiply(const product& how, const operands& on) {
  for (std::int32_t i = 0; i < on.d_layout.count; ++i) {
    operands one = on;
    one.a = static_cast<const std::byte*>(on.a) + on.a_layout.place(i) * on.a_layout.size();
    one.b = static_cast<const std::byte*>(on.b) + on.b_layout.place(i) * on.b_layout.size();
    one.c += on.c_layout.place(i);
    one.d += on.d_layout.place(i);
    multiply_one(how, one);
  }
}

// -- refusals ---------------------------------------------------------------------------------------------------------

bool shapes_fit(const product& how, const layout& a, const layout& b, const layout& c, const layout& d) {
  const bool a_plain = how.a_form == CUBLAS_OP_N;
  const bool b_plain = how.b_form == CUBLAS_OP_N;
  return (a_plain ? a.rows : a.cols) == d.rows && (b_plain ? b.cols : b.rows) == d.cols &&
         (a_plain ? a.cols : a.rows) == (b_plain ? b.rows : b.cols) && c.rows == d.rows && c.cols == d.cols &&
         a.count == d.count && b.count == d.count && c.count == d.count;
}

/// Checks that the mask's columns begin at 16 bytes, and hold the output's rows.
bool mask_fits(const product& how, const layout& d) {
  return !has(how.epilogue, has_mask) ||
         (how.mask_bits % 128 == 0 && how.mask_bits >= static_cast<std::int64_t>(d.rows) && how.mask != nullptr);
}

bool is_supported(const product& how, const layout& a, const layout& b, const layout& c, const layout& d) {
  constexpr int known[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_RELU,          CUBLASLT_EPILOGUE_BIAS,
                           CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_BGRADA,        CUBLASLT_EPILOGUE_BGRADB,
                           CUBLASLT_EPILOGUE_RELU_AUX,  CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU};
  const bool rounds = how.compute != CUBLAS_COMPUTE_32F;
  const bool of_float = a.type == CUDA_R_32F && b.type == CUDA_R_32F;
  // cuBLASLt runs bf16 columns that do not begin at 16 bytes on a much slower kernel. The backend must not use it.
  const bool is_fast = a.stride % 8 == 0 && b.stride % 8 == 0;
  if (d.count > 1 && how.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return false;
  const bool of_bf16 = a.type == CUDA_R_16BF && b.type == CUDA_R_16BF && !rounds && is_fast;
  if (has(how.epilogue, troupe::emulated_cuda::configured().refused_epilogues)) return false;
  return std::find(std::begin(known), std::end(known), how.epilogue) != std::end(known) && (of_float || of_bf16) &&
         c.type == CUDA_R_32F && d.type == CUDA_R_32F && d.rows > 0 && d.cols > 0 && shapes_fit(how, a, b, c, d);
}

bool on_device(const void* address, std::size_t bytes) {
  return troupe::emulated_cuda::find_place(address, bytes) == troupe::emulated_cuda::place::device;
}

bool are_on_device(const product& how, const operands& on) {
  const bool bias_is_used =
      has(how.epilogue, CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
  const std::size_t mask_bytes = static_cast<std::size_t>(how.mask_bits) / 8 * on.d_layout.cols;
  const std::size_t bias_size = has(how.epilogue, CUBLASLT_EPILOGUE_BGRADB) ? on.d_layout.cols : on.d_layout.rows;
  return on_device(on.a, on.a_layout.bytes()) && on_device(on.b, on.b_layout.bytes()) &&
         (on.beta == 0 || on_device(on.c, on.c_layout.bytes())) && on_device(on.d, on.d_layout.bytes()) &&
         (!bias_is_used || on_device(how.bias, bias_size * sizeof(float))) &&
         (!has(how.epilogue, has_mask) || on_device(how.mask, mask_bytes));
}

}  // namespace

// -- descriptors ------------------------------------------------------------------------------------------------------

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  TROUPE_CUBLAS_CALL;
  if (troupe::emulated_cuda::usable() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{troupe::emulated_cuda::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  TROUPE_CUBLAS_CALL;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute, cudaDataType_t) {
  TROUPE_CUBLAS_CALL;
  static_assert(sizeof(product) <= sizeof(cublasLtMatmulDescOpaque_t));
  auto* opaque = new cublasLtMatmulDescOpaque_t{};
  new (opaque) product{.compute = compute};
  *descriptor = opaque;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  TROUPE_CUBLAS_CALL;
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  TROUPE_CUBLAS_CALL;
  auto& how = *reinterpret_cast<product*>(descriptor);
  const auto set = [&](auto& member) {
    if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(how.a_form);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(how.b_form);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(how.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(how.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(how.mask);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(how.mask_bits);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* descriptor, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t stride) {
  TROUPE_CUBLAS_CALL;
  static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
  if (stride < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  auto* opaque = new cublasLtMatrixLayoutOpaque_t{};
  new (opaque) layout{type, rows, cols, static_cast<std::size_t>(stride)};
  *descriptor = opaque;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t descriptor,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  TROUPE_CUBLAS_CALL;
  auto& matrices = *reinterpret_cast<layout*>(descriptor);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof matrices.count)
    std::memcpy(&matrices.count, value, bytes);
  else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof matrices.offset)
    std::memcpy(&matrices.offset, value, bytes);
  else
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t descriptor) {
  TROUPE_CUBLAS_CALL;
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  TROUPE_CUBLAS_CALL;
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  TROUPE_CUBLAS_CALL;
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  TROUPE_CUBLAS_CALL;
  return CUBLAS_STATUS_SUCCESS;  // the only algorithm needs no setting
}

// -- products ---------------------------------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  TROUPE_CUBLAS_CALL;
  *found = 0;
  const auto& how = content_of<product>(descriptor);
  if (wanted < 1 || !mask_fits(how, content_of<layout>(d))) return CUBLAS_STATUS_MAPPING_ERROR;
  const auto& left = content_of<layout>(a);
  if (has(how.epilogue, reads_mask) && (how.a_form == CUBLAS_OP_N ? left.cols : left.rows) == 1)
    return CUBLAS_STATUS_INVALID_VALUE;  // some versions report a missing epilogue this way
  if (!is_supported(content_of<product>(descriptor), content_of<layout>(a), content_of<layout>(b),
                    content_of<layout>(c), content_of<layout>(d))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t stream) {
  TROUPE_CUBLAS_CALL;
  const auto& how = content_of<product>(descriptor);
  const operands on = {a,
                       b,
                       static_cast<const float*>(c),
                       static_cast<float*>(d),
                       content_of<layout>(a_layout),
                       content_of<layout>(b_layout),
                       content_of<layout>(c_layout),
                       content_of<layout>(d_layout),
                       *static_cast<const float*>(alpha),
                       *static_cast<const float*>(beta)};
  if (!is_supported(how, on.a_layout, on.b_layout, on.c_layout, on.d_layout)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!mask_fits(how, on.d_layout) || !are_on_device(how, on) || stream == nullptr ||
      stream->device() != handle->device) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cudaError_t code = troupe::emulated_cuda::enqueue(stream, [how, on] { multiply(how, on); });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "a status that is not emulated";
  }
}
