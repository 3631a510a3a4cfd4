// Elementwise kernels, columns of matrices, and reductions to one number.

#include <algorithm>
#include <numbers>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/packs.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/random_bits.hpp"

namespace troupe::kernels::cuda {
namespace {

template <int Width>
__global__ void fill_kernel(std::size_t count, float value, float* x) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    pack<float, Count> filled;
    for (float& number : filled.at) number = value;
    store_pack(filled, x + at);
  });
}

template <int Width>
__global__ void multiply_kernel(std::size_t count, float factor, float* x) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    auto product = load_pack<Count>(x + at);
    for (float& number : product.at) number *= factor;
    store_pack(product, x + at);
  });
}

template <int Width>
__global__ void relu_forward_kernel(std::size_t count, const float* x, float* y) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    auto output = load_pack<Count>(x + at);
    for (float& number : output.at) number = number < 0 ? 0.0F : number;  // by comparison, which keeps NaN
    store_pack(output, y + at);
  });
}

template <int Width>
__global__ void relu_backward_kernel(std::size_t count, const float* y, const float* grad_y, float* grad_x) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const auto output = load_pack<Count>(y + at);
    auto grad = load_pack<Count>(grad_y + at);
    unrolled<Count>([&](int k) { grad.at[k] = output.at[k] > 0 ? grad.at[k] : 0.0F; });
    store_pack(grad, grad_x + at);
  });
}

/// The normal distribution function. By erfc, so that small values keep all digits.
__device__ float normal_below(float x) { return 0.5F * erfcf(x * -(std::numbers::sqrt2_v<float> / 2)); }

template <int Width>
__global__ void gelu_forward_kernel(std::size_t count, const float* x, float* y) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    auto output = load_pack<Count>(x + at);
    for (float& number : output.at) number *= normal_below(number);
    store_pack(output, y + at);
  });
}

template <int Width>
__global__ void gelu_backward_kernel(std::size_t count, const float* x, const float* grad_y, float* grad_x) {
  constexpr float peak = 0.398942280F;  // of the normal density: 1 / sqrt(2 pi)
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const auto input = load_pack<Count>(x + at);
    auto grad = load_pack<Count>(grad_y + at);
    unrolled<Count>([&](int k) {
      const float number = input.at[k];
      const float density = peak * expf(-0.5F * number * number);
      grad.at[k] *= fmaf(number, density, normal_below(number));
    });
    store_pack(grad, grad_x + at);
  });
}

/// `random_bits(key, counter)`.
__device__ std::uint64_t bits_of(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * splitmix::increment;
  z = (z ^ (z >> 30)) * splitmix::first_factor;
  z = (z ^ (z >> 27)) * splitmix::second_factor;
  return z ^ (z >> 31);
}

/// Requires: rows begin at packs.
template <int Width>
__global__ void dropout_kernel(dropout_mask mask, std::size_t count, std::size_t row_width, const float* x, float* y) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const std::size_t row = quotient(at, row_width);
    const std::size_t column = at - row * row_width;
    const std::uint64_t key = bits_of(mask.key, mask.first_row + row);
    auto numbers = load_pack<Count>(x + at);
    unrolled<Count>([&](int k) {
      const bool is_dropped = bits_of(key, column + static_cast<unsigned>(k)) >> 32 < mask.threshold;
      numbers.at[k] = is_dropped ? 0.0F : numbers.at[k] * mask.scale;
    });
    store_pack(numbers, y + at);
  });
}

template <int Width>
__global__ void multiply_add_kernel(std::size_t count, const float* a, const float* b, const float* c, float* y) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const auto first = load_pack<Count>(a + at);
    const auto second = load_pack<Count>(b + at);
    auto sum = c ? load_pack<Count>(c + at) : pack<float, Count>{};
    unrolled<Count>([&](int k) { sum.at[k] = fmaf(first.at[k], second.at[k], sum.at[k]); });
    store_pack(sum, y + at);
  });
}

/// The inputs of one launch; kernel parameters are limited to 4 KiB.
struct rank_inputs {
  static constexpr unsigned most = 256;
  const float* at[most];
  unsigned count;
};

template <int Width>
__global__ void rank_sum_kernel(rank_inputs in, std::size_t count, float scale, float* out) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    auto sum = load_pack<Count>(in.at[0] + at);
    for (unsigned rank = 1; rank < in.count; ++rank) {
      const auto next = load_pack<Count>(in.at[rank] + at);
      unrolled<Count>([&](int k) { sum.at[k] += next.at[k]; });
    }
    for (float& number : sum.at) number *= scale;
    store_pack(sum, out + at);
  });
}

/// to = from, or to += from, for matrices [rows, cols].
template <bool Add, int Width>
__global__ void columns_kernel(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to,
                               lane_share share) {
  const std::size_t row = share.item();
  if (row >= rows) return;
  for (std::size_t col = share.lane() * Width; col < cols; col += share.lanes() * Width) {
    auto x = load_pack<Width>(from.data + row * from.stride + col);
    float* const target = to.data + row * to.stride + col;
    if constexpr (Add) {
      const auto old = load_pack<Width>(target);
      unrolled<Width>([&](int k) { x.at[k] = old.at[k] + x.at[k]; });
    }
    store_pack(x, target);
  }
}

__global__ void square_parts(std::size_t count, const float* x, double* parts) {
  double sum = 0;
  for (std::size_t i = global_thread(); i < count; i += thread_count())
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  store_part<sum_of>(sum, parts);
}

__global__ void non_finite_parts(std::size_t count, const float* x, std::uint64_t* parts) {
  std::uint64_t first = least_of::neutral;
  for (std::size_t i = global_thread(); i < count; i += thread_count())
    if (first == least_of::neutral && !is_finite(x[i])) first = i;
  store_part<least_of>(first, parts);
}

__global__ void finish_non_finite(const std::uint64_t* parts, std::size_t part_count, std::size_t count, const float* x,
                                  non_finite* result) {
  std::uint64_t first = least_of::neutral;
  for (std::size_t i = threadIdx.x; i < part_count; i += block_threads) first = least_of()(first, parts[i]);
  first = combine_block(first, least_of());
  if (threadIdx.x == 0) *result = first < count ? non_finite{first, x[first]} : non_finite{count, 0};
}

template <bool Add>
void launch_columns(const cuda_stream& stream, std::size_t rows, std::size_t cols, row_matrix<const float> from,
                    row_matrix<float> to) {
  const bool packs = (cols | from.stride | to.stride) % 4 == 0 && fits_packs<4>(from.data) && fits_packs<4>(to.data);
  const lane_share share = share_for(cols, packs ? 4 : 1);
  launch(packs ? columns_kernel<Add, 4> : columns_kernel<Add, 1>, share.blocks(rows), stream, rows, cols, from, to,
         share);
}

}  // namespace

void cuda_stream::copy_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) {
  launch_columns<false>(*this, rows, cols, from, to);
}

void cuda_stream::add_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) {
  launch_columns<true>(*this, rows, cols, from, to);
}

void cuda_stream::fill(std::size_t count, float value, float* x) {
  launch(fits_packs<4>(x) ? fill_kernel<4> : fill_kernel<1>, blocks_for_packs(count), *this, count, value, x);
}

void cuda_stream::multiply(std::size_t count, float factor, float* x) {
  launch(fits_packs<4>(x) ? multiply_kernel<4> : multiply_kernel<1>, blocks_for_packs(count), *this, count, factor, x);
}

void cuda_stream::relu_forward(std::size_t count, const float* x, float* y) {
  launch(fits_packs<4>(x) && fits_packs<4>(y) ? relu_forward_kernel<4> : relu_forward_kernel<1>,
         blocks_for_packs(count), *this, count, x, y);
}

void cuda_stream::relu_backward(std::size_t count, const float* y, const float* grad_y, float* grad_x) {
  const bool packs = fits_packs<4>(y) && fits_packs<4>(grad_y) && fits_packs<4>(grad_x);
  launch(packs ? relu_backward_kernel<4> : relu_backward_kernel<1>, blocks_for_packs(count), *this, count, y, grad_y,
         grad_x);
}

void cuda_stream::gelu_forward(std::size_t count, const float* x, float* y) {
  launch(fits_packs<4>(x) && fits_packs<4>(y) ? gelu_forward_kernel<4> : gelu_forward_kernel<1>,
         blocks_for_packs(count), *this, count, x, y);
}

void cuda_stream::gelu_backward(std::size_t count, const float* x, const float* grad_y, float* grad_x) {
  const bool packs = fits_packs<4>(x) && fits_packs<4>(grad_y) && fits_packs<4>(grad_x);
  launch(packs ? gelu_backward_kernel<4> : gelu_backward_kernel<1>, blocks_for_packs(count), *this, count, x, grad_y,
         grad_x);
}

void cuda_stream::dropout(const dropout_mask& mask, std::size_t rows, std::size_t width, const float* x, float* y) {
  const bool packs = width % 4 == 0 && fits_packs<4>(x) && fits_packs<4>(y);
  launch(packs ? dropout_kernel<4> : dropout_kernel<1>, blocks_for_packs(rows * width), *this, mask, rows * width,
         width, x, y);
}

void cuda_stream::multiply_add(std::size_t count, const float* a, const float* b, const float* c, float* y) {
  const bool packs = fits_packs<4>(a) && fits_packs<4>(b) && fits_packs<4>(c) && fits_packs<4>(y);
  launch(packs ? multiply_add_kernel<4> : multiply_add_kernel<1>, blocks_for_packs(count), *this, count, a, b, c, y);
}

void cuda_stream::sum_in_rank_order(std::span<const float* const> in, std::size_t count, float scale, float* out) {
  const float* sum_so_far = nullptr;
  while (true) {
    rank_inputs some{};
    if (sum_so_far) some.at[some.count++] = sum_so_far;
    const std::size_t taken = std::min<std::size_t>(in.size(), rank_inputs::most - some.count);
    for (const float* const input : in.first(taken)) some.at[some.count++] = input;
    in = in.subspan(taken);
    const bool last = in.empty();
    // Writes `out` last, because `out` may be an input that has not been read yet.
    float* const to = last ? out : reinterpret_cast<float*>(grow(partial_sums_, count * sizeof(float)));
    const bool packs = fits_packs<4>(to) && std::all_of(some.at, some.at + some.count,
                                                        [](const float* input) { return fits_packs<4>(input); });
    launch(packs ? rank_sum_kernel<4> : rank_sum_kernel<1>, blocks_for_packs(count), *this, some, count,
           last ? scale : 1.0F, to);
    if (last) return;
    sum_so_far = to;
  }
}

void cuda_stream::squared_norm(std::size_t count, const float* x, double* result) {
  sum_parts(square_parts, reduce_blocks(count), *this, 1.0, result, count, x);
}

void cuda_stream::find_non_finite(std::size_t count, const float* x, non_finite* result) {
  auto* const parts = reinterpret_cast<std::uint64_t*>(parts_.get());
  launch(non_finite_parts, reduce_blocks(count), *this, count, x, parts);
  launch(finish_non_finite, 1, *this, parts, reduce_blocks(count), count, x, result);
}

}  // namespace troupe::kernels::cuda
