// Embedding bag, forward. A group of lanes of a warp shares a bag; each lane has its own columns and loads up to 16
// bytes of a row at a time. Rows of several indices are loaded at once and added in index order. The output may be
// columns of an unaligned matrix; then the sums are stored number by number. Tables of one width share a launch, each
// with its own blocks.

#include <algorithm>
#include <vector>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/device_bags.hpp"
#include "kernels/cuda/launch_parts.hpp"
#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {
namespace {

enum class pool { plain_sum, weighted_sum, mean, maximum };

/// Rows that a lane loads before it adds them.
constexpr int rows_ahead = 8;

/// Pools columns column .. column + Width of bag [begin, end).
template <pool Pool, int Width, class Number>
__device__ pack<float, Width> pool_columns(const Number* table, std::size_t dim, const device_bags& bags,
                                           std::size_t begin, std::size_t end, std::size_t column) {
  pack<float, Width> sum{};
  for_each_group<rows_ahead>(begin, end, [&]<int Count>(width<Count>, std::size_t i) {
    std::size_t numbers[Count];
    pack<Number, Width> rows[Count];
    unrolled<Count>([&](int a) { numbers[a] = static_cast<std::size_t>(__ldg(bags.indices + i + a)); });
    unrolled<Count>([&](int a) { rows[a] = load_pack<Width>(table + numbers[a] * dim + column); });
    unrolled<Count>([&](int a) {
      [[maybe_unused]] const float weight = Pool == pool::weighted_sum ? __ldg(bags.weights + i + a) : 1.0F;
      unrolled<Width>([&](int k) {
        const float x = to_float(rows[a].at[k]);
        float& to = sum.at[k];
        if constexpr (Pool == pool::maximum)
          to = i + a == begin || x > to ? x : to;
        else
          to = fmaf(weight, x, to);  // equals the plain sum if the weight is 1
      });
    });
  });
  if (Pool == pool::mean && begin < end) unrolled<Width>([&](int k) { sum.at[k] /= static_cast<float>(end - begin); });
  return sum;
}

/// A pass, for kernels.
template <class Number>
struct device_pass {
  const Number* table = nullptr;
  device_bags bags;
  float* out = nullptr;
  std::size_t out_stride = 0;
};

/// Loads `Width` numbers at a time and stores `Stored` floats.
template <pool Pool, int Width, int Stored, class Number>
__global__ void __launch_bounds__(block_threads, 4)
    pool_kernel(const __grid_constant__ launch_parts<device_pass<Number>> passes, std::size_t dim, lane_share share) {
  const auto [part, thread] = passes.here();
  const device_pass<Number>& pass = passes.parts[part];
  const std::size_t bag = thread >> share.shift;
  if (bag >= pass.bags.bag_count) return;
  const std::size_t begin = pass.bags.begin_of(bag);
  const std::size_t end = pass.bags.end_of(bag);
  for (std::size_t column = share.lane() * Width; column < dim; column += share.lanes() * Width) {
    const auto sum = pool_columns<Pool, Width>(pass.table, dim, pass.bags, begin, end, column);
    float* const to = pass.out + bag * pass.out_stride + column;
    unrolled<Width / Stored>([&](int part_of_sum) {
      pack<float, Stored> some;
      unrolled<Stored>([&](int k) { some.at[k] = sum.at[part_of_sum * Stored + k]; });
      store_pack(some, to + part_of_sum * Stored);
    });
  }
}

/// Selects a pass's kernel.
struct variant {
  pool how;
  bool loads_packs;
  bool stores_packs;
  bool operator==(const variant&) const = default;
};

template <class Number>
variant variant_of(const bag_pass& pass, std::size_t dim) {
  constexpr int full = 16 / sizeof(Number);
  // The maximum of one row is the row itself, with its NaNs and negative zeros.
  const pool how = pass.bags.offsets.empty() || pass.mode == pooling::max ? pool::maximum
                   : !pass.bags.weights.empty()                           ? pool::weighted_sum
                   : pass.mode == pooling::mean                           ? pool::mean
                                                                          : pool::plain_sum;
  const bool loads_packs = dim % full == 0 && fits_packs<full>(static_cast<const Number*>(pass.table));
  return {how, loads_packs, loads_packs && pass.out_stride % 4 == 0 && fits_packs<4>(pass.out)};
}

template <pool Pool, class Number>
auto kernel_of(const variant& which) {
  constexpr int full = 16 / sizeof(Number);
  return which.stores_packs  ? pool_kernel<Pool, full, 4, Number>
         : which.loads_packs ? pool_kernel<Pool, full, 1, Number>
                             : pool_kernel<Pool, 1, 1, Number>;
}

/// Launches the passes whose kernel is `which`.
template <class Number>
void launch_variant(const cuda_stream& stream, std::size_t dim, std::span<const bag_pass> passes, variant which) {
  const auto kernel = which.how == pool::maximum        ? kernel_of<pool::maximum, Number>(which)
                      : which.how == pool::weighted_sum ? kernel_of<pool::weighted_sum, Number>(which)
                      : which.how == pool::mean         ? kernel_of<pool::mean, Number>(which)
                                                        : kernel_of<pool::plain_sum, Number>(which);
  const lane_share share = share_for(dim, which.loads_packs ? 16 / sizeof(Number) : 1);
  launch_parts<device_pass<Number>> some;
  const auto launch_some = [&] {
    launch(kernel, some.blocks, stream, some, dim, share);
    some.count = some.blocks = 0;
  };
  for (const bag_pass& pass : passes) {
    const device_bags bags = as_device_bags(pass.bags);
    if (bags.bag_count == 0 || variant_of<Number>(pass, dim) != which) continue;
    some.add({static_cast<const Number*>(pass.table), bags, pass.out, pass.out_stride}, share.blocks(bags.bag_count));
    if (some.is_full()) launch_some();
  }
  launch_some();
}

}  // namespace

void cuda_stream::embedding_bags_forward(std::size_t dim, row_dtype type, std::span<const bag_pass> passes) {
  with_numbers(const_table_view(nullptr, type), [&]<class Number>(const Number*) {
    std::vector<variant> launched;
    for (const bag_pass& pass : passes) {
      const variant which = variant_of<Number>(pass, dim);
      if (std::find(launched.begin(), launched.end(), which) != launched.end()) continue;
      launched.push_back(which);
      launch_variant<Number>(*this, dim, passes, which);
    }
  });
}

void cuda_stream::embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags,
                                        float* out, std::size_t out_stride) {
  if (bags.offsets.empty()) return;
  const bag_pass one{mode, table.data, bags, out, out_stride};
  embedding_bags_forward(dim, table.type, {&one, 1});
}

void cuda_stream::gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices,
                              float* out) {
  const bag_pass one{pooling::max, table.data, {indices, {}, {}}, out, dim};
  embedding_bags_forward(dim, table.type, {&one, 1});
}

}  // namespace troupe::kernels::cuda
