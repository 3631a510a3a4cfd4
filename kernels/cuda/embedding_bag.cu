// Embedding bag, forward. A group of lanes of a warp shares a bag; each lane has its own columns and loads up to 16
// bytes of a row at a time. Rows of several indices are loaded at once and added in index order. The output may be
// columns of an unaligned matrix; then the sums are stored number by number.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/device_bags.hpp"
#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {
namespace {

enum class pool { plain_sum, weighted_sum, mean, maximum };

/// Rows that a lane loads before it adds them.
constexpr int rows_ahead = 8;

/// Pools columns column .. column + kWidth of bag [begin, end).
template <pool kPool, int kWidth, class Number>
__device__ pack<float, kWidth> pool_columns(const Number* table, std::size_t dim, const device_bags& bags,
                                            std::size_t begin, std::size_t end, std::size_t column) {
  pack<float, kWidth> sum{};
  for_each_group<rows_ahead>(begin, end, [&]<int kCount>(width<kCount>, std::size_t i) {
    std::size_t numbers[kCount];
    pack<Number, kWidth> rows[kCount];
    unrolled<kCount>([&](int a) { numbers[a] = static_cast<std::size_t>(__ldg(bags.indices + i + a)); });
    unrolled<kCount>([&](int a) { rows[a] = load_pack<kWidth>(table + numbers[a] * dim + column); });
    unrolled<kCount>([&](int a) {
      [[maybe_unused]] const float weight = kPool == pool::weighted_sum ? __ldg(bags.weights + i + a) : 1.0F;
      unrolled<kWidth>([&](int k) {
        const float x = to_float(rows[a].at[k]);
        float& to = sum.at[k];
        if constexpr (kPool == pool::maximum)
          to = i + a == begin || x > to ? x : to;
        else
          to = fmaf(weight, x, to);  // equals the plain sum if the weight is 1
      });
    });
  });
  if (kPool == pool::mean && begin < end)
    unrolled<kWidth>([&](int k) { sum.at[k] /= static_cast<float>(end - begin); });
  return sum;
}

/// Loads `kWidth` numbers at a time and stores `kStored` floats.
template <pool kPool, int kWidth, int kStored, class Number>
__global__ void __launch_bounds__(block_threads, 4) pool_kernel(const Number* table, std::size_t dim, device_bags bags,
                                                                float* out, std::size_t out_stride, lane_share share) {
  const std::size_t bag = share.item();
  if (bag >= bags.bag_count) return;
  const std::size_t begin = bags.begin_of(bag);
  const std::size_t end = bags.end_of(bag);
  for (std::size_t column = share.lane() * kWidth; column < dim; column += share.lanes() * kWidth) {
    const auto sum = pool_columns<kPool, kWidth>(table, dim, bags, begin, end, column);
    float* const to = out + bag * out_stride + column;
    unrolled<kWidth / kStored>([&](int part) {
      pack<float, kStored> some;
      unrolled<kStored>([&](int k) { some.at[k] = sum.at[part * kStored + k]; });
      store_pack(some, to + part * kStored);
    });
  }
}

template <pool kPool>
void launch_pool(const cuda_stream& stream, const_table_view table, std::size_t dim, const device_bags& bags,
                 float* out, std::size_t out_stride) {
  with_numbers(table, [&]<class Number>(const Number* numbers) {
    constexpr int full = 16 / sizeof(Number);
    const bool loads_packs = dim % full == 0 && fits_packs<full>(numbers);
    const bool stores_packs = loads_packs && out_stride % 4 == 0 && fits_packs<4>(out);
    const auto kernel = stores_packs  ? pool_kernel<kPool, full, 4, Number>
                        : loads_packs ? pool_kernel<kPool, full, 1, Number>
                                      : pool_kernel<kPool, 1, 1, Number>;
    const lane_share share = share_for(dim, loads_packs ? full : 1);
    launch(kernel, share.blocks(bags.bag_count), stream, numbers, dim, bags, out, out_stride, share);
  });
}

}  // namespace

void cuda_stream::embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags,
                                        float* out, std::size_t out_stride) {
  const device_bags seen = as_device_bags(bags);
  const auto pooled = mode == pooling::max    ? launch_pool<pool::maximum>
                      : seen.weights          ? launch_pool<pool::weighted_sum>
                      : mode == pooling::mean ? launch_pool<pool::mean>
                                              : launch_pool<pool::plain_sum>;
  pooled(*this, table, dim, seen, out, out_stride);
}

void cuda_stream::gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices,
                              float* out) {
  // The maximum of one row is the row itself, with its NaNs and negative zeros.
  launch_pool<pool::maximum>(*this, table, dim, as_device_bags({indices, {}, {}}), out, dim);
}

}  // namespace troupe::kernels::cuda
