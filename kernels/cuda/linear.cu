// Fully connected layers. A row-major matrix is the transpose of cuBLASLt's column-major one, so products swap their
// factors.

#include <algorithm>
#include <string>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {
namespace {

template <int Width>
__global__ void to_bf16_kernel(std::size_t count, const float* x, __nv_bfloat16* rounded) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const auto from = load_pack<Count>(x + at);
    pack<__nv_bfloat16, Count> to;
    unrolled<Count>([&](int k) { store_float(from.at[k], to.at[k]); });
    store_pack(to, rounded + at);
  });
}

/// y = then(y + bias); `bias` may be null.
__global__ void bias_kernel(std::size_t batch, std::size_t out, const float* bias, activation then, float* y) {
  for (std::size_t i = global_thread(); i < batch * out; i += thread_count()) {
    const float sum = bias ? y[i] + bias[i % out] : y[i];
    y[i] = then == activation::relu && sum < 0 ? 0.0F : sum;  // by comparison, which keeps NaN
  }
}

constexpr std::size_t sum_columns = 32;  // columns of a block
constexpr std::size_t sum_warps = block_threads / 32;

/// sums[p, c] = the sum of column c over the p-th `rows_each` rows. Each warp of a block adds every `sum_warps`-th row,
/// and the first warp adds the sums of all.
__global__ void column_sum_kernel(std::size_t rows, std::size_t cols, const float* x, std::size_t rows_each,
                                  float* sums) {
  constexpr int ahead = 8;  // rows that a warp loads at once
  const std::size_t chunks = (cols + sum_columns - 1) / sum_columns;
  const std::size_t part = blockIdx.x / chunks;
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const std::size_t column = blockIdx.x % chunks * sum_columns + lane;
  const std::size_t begin = part * rows_each + warp;
  const std::size_t end = (part + 1) * rows_each < rows ? (part + 1) * rows_each : rows;
  const std::size_t mine = begin < end && column < cols ? (end - begin + sum_warps - 1) / sum_warps : 0;
  float sum = 0;
  for_each_group<ahead>(std::size_t{0}, mine, [&]<int Count>(width<Count>, std::size_t first) {
    float numbers[Count];
    const float* const from = x + (begin + first * sum_warps) * cols + column;
    unrolled<Count>([&](int a) { numbers[a] = from[static_cast<std::size_t>(a) * sum_warps * cols]; });
    unrolled<Count>([&](int a) { sum += numbers[a]; });
  });
  __shared__ float of_warps[sum_warps][sum_columns];
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= cols) return;
  for (std::size_t other = 1; other < sum_warps; ++other) sum += of_warps[other][lane];
  sums[part * cols + column] = sum;
}

}  // namespace

matrix_products& cuda_stream::products() {
  if (!products_) products_ = std::make_unique<matrix_products>(device_, precision_);
  return *products_;
}

/// Layers of other widths use factors in tf32: for bf16, cuBLASLt would use a kernel that is many times slower.
bool cuda_stream::multiplies_in_bf16(std::size_t in, std::size_t out) const {
  constexpr std::size_t columns = 16 / sizeof(__nv_bfloat16);  // rows must begin at multiples of 16 bytes
  return precision_ == matmul_precision::bf16 && in % columns == 0 && out % columns == 0;
}

void cuda_stream::round_to_bf16(std::size_t count, const float* x, std::uint16_t* rounded) {
  static_assert(sizeof(__nv_bfloat16) == sizeof *rounded);
  auto* const to = reinterpret_cast<__nv_bfloat16*>(rounded);
  launch(fits_packs<4>(x) && fits_packs<4>(to) ? to_bf16_kernel<4> : to_bf16_kernel<1>, blocks_for_packs(count), *this,
         count, x, to);
}

const void* cuda_stream::as_factor(bool in_bf16, std::size_t count, product_factor x, scratch& rounded) {
  if (!in_bf16) return x.numbers;
  if (x.in_bf16) return x.in_bf16;
  auto* const to = reinterpret_cast<std::uint16_t*>(grow(rounded, count * sizeof(std::uint16_t)));
  round_to_bf16(count, x.numbers, to);
  return to;
}

void cuda_stream::column_sums(std::size_t rows, std::size_t cols, const float* x, float* sums) {
  constexpr std::size_t parts_max = 128;
  const std::size_t parts = std::clamp<std::size_t>(rows / (8 * sum_warps), 1, parts_max);
  const std::size_t chunks = (cols + sum_columns - 1) / sum_columns;
  float* const part_sums =
      parts == 1 ? sums : reinterpret_cast<float*>(grow(partial_sums_, parts * cols * sizeof(float)));
  launch(column_sum_kernel, parts * chunks, *this, rows, cols, x, (rows + parts - 1) / parts, part_sums);
  if (parts > 1) launch(column_sum_kernel, chunks, *this, parts, cols, part_sums, parts, sums);
}

void cuda_stream::multiply_plainly(const product_shape& shape, const product_operands& operands) {
  if (products().multiply(shape, operands, handle_)) return;
  if (shape.is_empty()) return fill(shape.count * shape.m * shape.n, 0, operands.d);
  throw device_error("cuBLASLt knows no way to multiply [" + std::to_string(shape.m) + ", " + std::to_string(shape.k) +
                     "] by [" + std::to_string(shape.k) + ", " + std::to_string(shape.n) +
                     "] on this device; try --matmul-precision f32");
}

/// cuBLASLt decides the mask of NaN and of an exact 0.
bool cuda_stream::linear_forward(std::size_t batch, std::size_t in, std::size_t out, product_factor x,
                                 product_factor weight, const float* bias, activation then, float* y, std::byte* mask) {
  device_.make_current();
  const bool in_bf16 = multiplies_in_bf16(in, out);
  const void* const a = as_factor(in_bf16, out * in, weight, first_factor_);
  const void* const b = as_factor(in_bf16, batch * in, x, second_factor_);
  auto* const only_read = const_cast<float*>(bias);
  product_shape shape{
      true, false, out, batch, in, in_bf16, bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX};
  if (mask && products().multiply(shape, {a, b, y, only_read, mask}, handle_)) return true;
  const bool has_relu = then == activation::relu;
  if (bias)
    shape.epilogue = has_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  else
    shape.epilogue = has_relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
  if (products().multiply(shape, {a, b, y, only_read}, handle_)) return false;
  shape.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  multiply_plainly(shape, {a, b, y});
  if (!bias && !has_relu) return false;
  launch(bias_kernel, blocks_for_packs(batch * out), *this, batch, out, bias, then, y);
  return false;
}

void cuda_stream::linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, product_factor x,
                                             product_factor grad_y, float* grad_weight, float* grad_bias) {
  device_.make_current();
  const bool in_bf16 = multiplies_in_bf16(in, out);
  const void* const a = as_factor(in_bf16, batch * in, x, first_factor_);
  const void* const b = as_factor(in_bf16, batch * out, grad_y, second_factor_);
  product_shape shape{false, true, in, out, batch, in_bf16, CUBLASLT_EPILOGUE_BGRADB};
  if (grad_bias && products().multiply(shape, {a, b, grad_weight, grad_bias}, handle_)) return;
  shape.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  multiply_plainly(shape, {a, b, grad_weight});
  if (grad_bias) column_sums(batch, out, grad_y.numbers, grad_bias);
}

bool cuda_stream::linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, product_factor weight,
                                        product_factor grad_y, float* grad_x, const std::byte* mask) {
  device_.make_current();
  const bool in_bf16 = multiplies_in_bf16(in, out);
  const void* const a = as_factor(in_bf16, out * in, weight, first_factor_);
  const void* const b = as_factor(in_bf16, batch * out, grad_y, second_factor_);
  product_shape shape{false, false, in, batch, out, in_bf16, CUBLASLT_EPILOGUE_DRELU};
  auto* const only_read = const_cast<std::byte*>(mask);
  // cuBLASLt lacks this epilogue for products of a column and a row, as in a layer with one output.
  if (mask && out > 1 && products().multiply(shape, {a, b, grad_x, nullptr, only_read}, handle_)) return true;
  shape.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  multiply_plainly(shape, {a, b, grad_x});
  return false;
}

void cuda_stream::batched_product(const batched_product_shape& shape, const float* a, const float* b, float* product) {
  device_.make_current();
  const auto [count, m, n, k, a_form, b_form] = shape;
  const bool in_bf16 = multiplies_in_bf16(m, k) && multiplies_in_bf16(k, n);
  const void* const first = as_factor(in_bf16, count * k * n, b, first_factor_);
  const void* const second = as_factor(in_bf16, count * m * k, a, second_factor_);
  multiply_plainly({b_form == factor_form::transposed, a_form == factor_form::transposed, n, m, k, in_bf16,
                    CUBLASLT_EPILOGUE_DEFAULT, count},
                   {first, second, product});
}

}  // namespace troupe::kernels::cuda
