// Lists the contributions to tables' gradients and groups them by row.

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/cuda_table_gradient.hpp"
#include "kernels/cuda/launch_parts.hpp"
#include "kernels/cuda/sort.hpp"

namespace troupe::kernels::cuda {
namespace {

/// A source, for `list_kernel`.
struct listed_source {
  device_bags bags;
  const float* grad = nullptr;
  std::size_t stride = 0;
  std::int64_t first_row = 0;  ///< of its table
  std::uint32_t first = 0;     ///< number of its first contribution
  std::uint32_t rank = 0;
  bool mean = false;
};

/// Writes the contributions of sources.
template <class Key>
__global__ void list_kernel(const __grid_constant__ launch_parts<listed_source> sources, lane_share share, Key* keys,
                            std::uint32_t* order, contribution* contributions) {
  const auto [part, thread] = sources.here();
  const listed_source& from = sources.parts[part];
  const std::size_t bag = thread >> share.shift;
  if (bag >= from.bags.bag_count) return;
  const std::size_t begin = from.bags.begin_of(bag);
  const std::size_t end = from.bags.end_of(bag);
  const float scale = from.mean ? 1.0F / static_cast<float>(end - begin) : 1.0F;
  for (std::size_t i = begin + share.lane(); i < end; i += share.lanes()) {
    const std::size_t at = from.first + i;
    keys[at] = static_cast<Key>(from.first_row + from.bags.indices[i]);
    order[at] = static_cast<std::uint32_t>(at);
    contributions[at] = {from.grad + bag * from.stride, from.bags.weights ? from.bags.weights[i] : scale, from.rank};
  }
}

/// marks[i] = 1 where the first contribution of a row is, else 0.
template <class Key>
__global__ void mark_kernel(const Key* keys, std::size_t count, std::uint32_t* marks) {
  const std::size_t i = global_thread();
  if (i < count) marks[i] = i == 0 || keys[i] != keys[i - 1] ? 1 : 0;
}

/// Orders the contributions, and finds the distinct rows and their starts. `numbers`: the prefix sum of the marks.
template <class Key>
__global__ void rows_kernel(const Key* keys, const std::uint32_t* order, const std::uint32_t* numbers,
                            std::size_t count, const contribution* listed, contribution* contributions,
                            std::int64_t* rows, std::uint32_t* starts, std::uint32_t* begins, std::uint32_t* ends,
                            std::uint32_t* distinct) {
  const std::size_t i = global_thread();
  if (i >= count) return;
  contributions[i] = listed[order[i]];
  const std::uint32_t number = numbers[i];
  if (i == 0 || numbers[i - 1] != number) {
    rows[number - 1] = static_cast<std::int64_t>(keys[i]);
    starts[number - 1] = begins[number - 1] = static_cast<std::uint32_t>(i);
    if (i > 0) ends[number - 2] = static_cast<std::uint32_t>(i);
  }
  if (i + 1 == count) {
    starts[number] = ends[number - 1] = static_cast<std::uint32_t>(count);
    *distinct = number;
  }
}

}  // namespace

std::unique_ptr<table_gradient> cuda_stream::make_table_gradient() {
  return std::make_unique<cuda_table_gradient>(*this);
}

cuda_table_gradient::~cuda_table_gradient() {
  stream_.synchronize_if_possible();  // the pool gives its memory to other users
}

void cuda_table_gradient::clear() {
  first_rows_.clear();
  row_count_ = 0;
  sources_.clear();
  contribution_count_ = 0;
}

std::size_t cuda_table_gradient::add_table(std::int64_t row_count) {
  first_rows_.push_back(row_count_);
  row_count_ += row_count;
  return first_rows_.size() - 1;
}

void cuda_table_gradient::add(std::size_t table, pooling mode, const bags_view& bags, const float* grad,
                              std::size_t grad_stride) {
  contribution_count_ += bags.indices.size();
  if (contribution_count_ > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw device_error("a step has more than 2^31 - 1 indices; try a smaller --batch-size");
  sources_.push_back({table, mode, as_device_bags(bags), grad, grad_stride});
}

/// A source's rank is its number among all sources: those of other tables do not affect the order within a row.
template <class Key>
void cuda_table_gradient::list_contributions(Key* keys) {
  std::size_t bags = 0;
  for (const source& from : sources_) bags += from.bags.index_count > 0 ? from.bags.bag_count : 0;
  const lane_share share = share_for(contribution_count_ / bags, 1);
  launch_parts<listed_source> some;
  const auto launch_some = [&] {
    launch(list_kernel<Key>, some.blocks, stream_, some, share, keys, listed_order_.data(), listed_.data());
    some.count = some.blocks = 0;
  };
  std::uint32_t first = 0;
  for (std::size_t rank = 0; rank < sources_.size(); ++rank) {
    const source& from = sources_[rank];
    if (from.bags.index_count == 0) continue;
    some.add({from.bags, from.grad, from.stride, first_rows_[from.table], first, static_cast<std::uint32_t>(rank),
              from.mode == pooling::mean},
             share.blocks(from.bags.bag_count));
    first += static_cast<std::uint32_t>(from.bags.index_count);
    if (some.is_full()) launch_some();
  }
  launch_some();
}

template <class Key>
void cuda_table_gradient::group_by(key_arrays<Key>& keys) {
  const std::size_t n = contribution_count_;
  const std::size_t scratch_bytes = sort_scratch_bytes<Key>(n);
  const Key* const listed = keys.listed.make(stream_, n);
  const Key* const sorted = keys.sorted.make(stream_, n);
  listed_order_.make(stream_, n);
  listed_.make(stream_, n);
  contributions_.make(stream_, n + long_rows_bound());
  order_.make(stream_, n);
  sort_scratch_.make(stream_, scratch_bytes);
  std::uint32_t* const numbers = run_numbers_.make(stream_, n);
  rows_.make(stream_, rows_bound());
  starts_.make(stream_, rows_bound() + 1);
  begins_.make(stream_, rows_bound());
  ends_.make(stream_, rows_bound());

  list_contributions(keys.listed.data());
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(row_count_ - 1))));
  const auto turn = stream_.device().graphs()->take_turn();
  sort_pairs(sort_scratch_.data(), scratch_bytes, listed, keys.sorted.data(), listed_order_.data(), order_.data(), n,
             bits, stream_.handle());
  launch(mark_kernel<Key>, blocks_for(n), stream_, sorted, n, numbers);
  running_sum(sort_scratch_.data(), scratch_bytes, numbers, n, stream_.handle());
  launch(rows_kernel<Key>, blocks_for(n), stream_, sorted, order_.data(), numbers, n, listed_.data(),
         contributions_.data(), rows_.data(), starts_.data(), begins_.data(), ends_.data(), distinct_.data());
}

void cuda_table_gradient::group() {
  stream_.device().make_current();
  distinct_.make(stream_, 1);
  long_rows_summed_ = false;
  if (contribution_count_ > 0)
    return row_count_ <= std::int64_t{1} << 32 ? group_by(short_keys_) : group_by(long_keys_);
  const auto turn = stream_.device().graphs()->take_turn();
  check(cudaMemsetAsync(distinct_.data(), 0, sizeof(std::uint32_t), stream_.handle()), "cudaMemsetAsync");
}

std::size_t cuda_table_gradient::rows_bound() const {
  return std::min(contribution_count_, static_cast<std::size_t>(row_count_));
}

grouped_rows cuda_table_gradient::grouped() const {
  const bool fit_packs = std::all_of(sources_.begin(), sources_.end(), [](const source& from) {
    return from.stride % 4 == 0 && fits_packs<4>(from.grad);
  });
  return {rows_.data(), begins_.data(), ends_.data(), distinct_.data(), contributions_.data(), fit_packs};
}

}  // namespace troupe::kernels::cuda
