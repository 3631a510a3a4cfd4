// Matrix products by cuBLASLt: descriptors, choice of algorithm, and calls.

#include "kernels/cuda/matrix_products.hpp"

#include "kernels/cuda/check.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr std::uint32_t alignment_max = 256;

/// Returns the alignment of an array, and of those that follow every `bytes` bytes.
std::uint32_t alignment_of(const void* address, std::size_t bytes = 0) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | bytes | alignment_max;
  return static_cast<std::uint32_t>(bits & ~(bits - 1));
}

/// Owns an object of cuBLASLt; `Handle` is a pointer.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
class owned {
 public:
  owned() = default;
  ~owned() {
    if (handle) Destroy(handle);
  }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;

  Handle handle = nullptr;
};

using layout = owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

void set(cublasLtMatrixLayout_t matrices, cublasLtMatrixLayoutAttribute_t attribute, auto value) {
  check(cublasLtMatrixLayoutSetAttribute(matrices, attribute, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}

void make(layout& made, cudaDataType_t type, std::size_t rows, std::size_t cols, std::size_t count) {
  check(cublasLtMatrixLayoutCreate(&made.handle, type, rows, cols, static_cast<std::int64_t>(rows)),
        "cublasLtMatrixLayoutCreate");
  if (count == 1) return;
  set(made.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set(made.handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(rows * cols));
}

}  // namespace

struct matrix_products::plan {
  owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product;
  layout a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;
};

matrix_products::matrix_products(cuda_device& device, matmul_precision precision)
    : device_(device), precision_(precision), workspace_(device.allocate(matmul_workspace_bytes)) {
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

matrix_products::~matrix_products() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

std::unique_ptr<matrix_products::plan> matrix_products::make_plan(const plan_key& key,
                                                                  const product_operands& operands) const {
  const product_shape& shape = key.shape;
  const bool in_tf32 = precision_ != matmul_precision::f32 && !shape.in_bf16;
  const auto compute = in_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const cudaDataType_t factor = shape.in_bf16 ? CUDA_R_16BF : CUDA_R_32F;
  auto made = std::make_unique<plan>();
  check(cublasLtMatmulDescCreate(&made->product.handle, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasLtMatmulDesc_t product = made->product.handle;
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, shape.epilogue);
  set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);  // the choice depends on its alignment
  if (operands.mask) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.mask);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(relu_mask_bits(shape.m)));
  }
  make(made->a, factor, shape.transpose_a ? shape.k : shape.m, shape.transpose_a ? shape.m : shape.k, shape.count);
  make(made->b, factor, shape.transpose_b ? shape.n : shape.k, shape.transpose_b ? shape.k : shape.n, shape.count);
  make(made->d, CUDA_R_32F, shape.m, shape.n, shape.count);

  owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> wanted;
  check(cublasLtMatmulPreferenceCreate(&wanted.handle), "cublasLtMatmulPreferenceCreate");
  set(wanted.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, matmul_workspace_bytes);
  // Split sums must be stored side by side and added in order.
  set(wanted.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(wanted.handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[0]);
  set(wanted.handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[1]);
  set(wanted.handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2]);
  set(wanted.handle, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[2]);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, product, made->a.handle, made->b.handle, made->d.handle, made->d.handle,
                                     wanted.handle, 1, &best, &found);
  // Some versions that lack this epilogue report an invalid value.
  const bool lacks_epilogue = status == CUBLAS_STATUS_INVALID_VALUE && shape.epilogue == CUBLASLT_EPILOGUE_DRELU;
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && !lacks_epilogue) check(status, "cublasLtMatmulAlgoGetHeuristic");
  made->found = status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  made->algorithm = best.algo;
  return made;
}

bool matrix_products::multiply(const product_shape& shape, const product_operands& operands, cudaStream_t stream) {
  if (shape.is_empty()) return false;
  const std::size_t of_factor = shape.count == 1 ? 0 : shape.in_bf16 ? sizeof(std::uint16_t) : sizeof(float);
  const std::size_t of_sum = shape.count == 1 ? 0 : sizeof(float);
  const plan_key key{
      shape,
      {alignment_of(operands.a, shape.m * shape.k * of_factor), alignment_of(operands.b, shape.k * shape.n * of_factor),
       alignment_of(operands.d, shape.m * shape.n * of_sum), alignment_of(operands.bias), alignment_of(operands.mask)}};
  auto known = plans_.find(key);
  if (known == plans_.end()) known = plans_.emplace(key, make_plan(key, operands)).first;
  const plan& chosen = *known->second;
  if (!chosen.found) return false;
  if (operands.bias) set(chosen.product.handle, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (operands.mask) set(chosen.product.handle, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.mask);
  const float one = 1;
  const float zero = 0;
  const auto turn = device_.graphs()->take_turn();
  check(cublasLtMatmul(handle_, chosen.product.handle, &one, operands.a, chosen.a.handle, operands.b, chosen.b.handle,
                       &zero, operands.d, chosen.d.handle, operands.d, chosen.d.handle, &chosen.algorithm,
                       workspace_.get(), matmul_workspace_bytes, stream),
        "cublasLtMatmul");
  return true;
}

}  // namespace troupe::kernels::cuda
