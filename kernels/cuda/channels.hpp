// Kernels for numbers [batch, channels, area] by channel: sums over each channel, and operations on each number.
//
// A sum has two stages, so that a few channels also keep the device busy. First, blocks sum parts of a channel:
//
//   area > 1    a block has one channel, and its threads process the areas one after the other
//   area 1      a block has 32 adjacent channels, and its warps process the samples
//
// Then a warp adds the parts of a channel. All sums are in double, in an order that depends on the shape only.

#pragma once

#include <algorithm>

#include "kernels/cuda/packs.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/image.hpp"

namespace troupe::kernels::cuda {

/// Two sums over the same numbers.
struct two_sums {
  double first;
  double second;
};

struct pair_of_sums {
  using value = two_sums;
  __device__ value operator()(value a, value b) const { return {a.first + b.first, a.second + b.second}; }
};

/// The channels of a block if the area is 1, and the warps that share them.
inline constexpr std::size_t block_channels = warp_lanes;
inline constexpr std::size_t block_warps = block_threads / warp_lanes;

/// Returns the number of parts of each channel's sum.
constexpr std::size_t channel_parts(const channels_shape& shape) {
  constexpr std::size_t numbers_per_thread = 16;
  const bool has_area = shape.area > 1;
  const std::size_t blocks =
      std::max<std::size_t>(has_area ? shape.channels : (shape.channels + block_channels - 1) / block_channels, 1);
  const std::size_t worth = shape.batch * shape.area / ((has_area ? block_threads : block_warps) * numbers_per_thread);
  return std::clamp<std::size_t>(worth, 1, (reduce_blocks_max + blocks - 1) / blocks);
}

/// Returns the size of the parts for `sum_channels`, in bytes.
constexpr std::size_t channel_parts_bytes(const channels_shape& shape) {
  return channel_parts(shape) * shape.channels * sizeof(two_sums);
}

/// sums[p, c] = part p of the sums of channel c.
template <class Terms>
__global__ void area_parts_kernel(channels_shape shape, std::size_t parts, Terms terms, two_sums* sums) {
  const std::size_t channel = blockIdx.x % shape.channels;
  const std::size_t part = blockIdx.x / shape.channels;
  const std::size_t count = shape.batch * shape.area;
  const std::size_t each = (count + parts - 1) / parts;
  const std::size_t begin = part * each + threadIdx.x;
  const std::size_t end = (part + 1) * each < count ? (part + 1) * each : count;
  const std::size_t samples_apart = block_threads / shape.area;
  const std::size_t places_apart = block_threads % shape.area;
  std::size_t sample = begin / shape.area;
  std::size_t place = begin % shape.area;
  two_sums mine{};
  for (std::size_t i = begin; i < end; i += block_threads) {
    mine = pair_of_sums()(mine, terms(sample, channel, (sample * shape.channels + channel) * shape.area + place));
    sample += samples_apart;
    place += places_apart;
    if (place >= shape.area) {
      place -= shape.area;
      ++sample;
    }
  }
  mine = combine_block(mine, pair_of_sums());
  if (threadIdx.x == 0) sums[part * shape.channels + channel] = mine;
}

/// The same for area 1.
template <class Terms>
__global__ void sample_parts_kernel(channels_shape shape, std::size_t parts, Terms terms, two_sums* sums) {
  const std::size_t chunks = (shape.channels + block_channels - 1) / block_channels;
  const std::size_t part = blockIdx.x / chunks;
  const unsigned lane = threadIdx.x % warp_lanes;
  const unsigned warp = threadIdx.x / warp_lanes;
  const std::size_t channel = blockIdx.x % chunks * block_channels + lane;
  const std::size_t each = (shape.batch + parts - 1) / parts;
  const std::size_t end = (part + 1) * each < shape.batch ? (part + 1) * each : shape.batch;
  two_sums mine{};
  if (channel < shape.channels) {
    for (std::size_t sample = part * each + warp; sample < end; sample += block_warps)
      mine = pair_of_sums()(mine, terms(sample, channel, sample * shape.channels + channel));
  }
  __shared__ two_sums of_warps[block_warps][block_channels];
  of_warps[warp][lane] = mine;
  __syncthreads();
  if (warp > 0 || channel >= shape.channels) return;
  for (std::size_t other = 1; other < block_warps; ++other) mine = pair_of_sums()(mine, of_warps[other][lane]);
  sums[part * shape.channels + channel] = mine;
}

/// Calls finish(channel, sums) with the sums of all parts; one warp for each channel.
template <class Finish>
__global__ void finish_channels_kernel(std::size_t channels, std::size_t parts, const two_sums* sums, Finish finish) {
  const std::size_t channel = global_thread() / warp_lanes;
  const unsigned lane = threadIdx.x % warp_lanes;
  if (channel >= channels) return;
  two_sums mine{};
  for (std::size_t part = lane; part < parts; part += warp_lanes)
    mine = pair_of_sums()(mine, sums[part * channels + channel]);
  mine = {combine_warp(mine.first, sum_of()), combine_warp(mine.second, sum_of())};
  if (lane == 0) finish(channel, mine);
}

/// Calls finish(channel, sums) on the device, with the sums of `terms(sample, channel, at)`, of type `two_sums`, over
/// each channel; `at`: the number's index. `memory`: `channel_parts_bytes` bytes.
template <class Terms, class Finish>
void sum_channels(const cuda_stream& stream, const channels_shape& shape, std::byte* memory, const Terms& terms,
                  const Finish& finish) {
  auto* const sums = reinterpret_cast<two_sums*>(memory);
  const std::size_t parts = channel_parts(shape);
  if (shape.area > 1)
    launch(area_parts_kernel<Terms>, parts * shape.channels, stream, shape, parts, terms, sums);
  else
    launch(sample_parts_kernel<Terms>, parts * ((shape.channels + block_channels - 1) / block_channels), stream, shape,
           parts, terms, sums);
  launch(finish_channels_kernel<Finish>, blocks_for(shape.channels * warp_lanes), stream, shape.channels, parts, sums,
         finish);
}

/// Calls operation(width, channel, at) for all numbers, some of a channel at a time.
template <int Width, class Operation>
__global__ void by_channel_kernel(channels_shape shape, Operation operation) {
  for_each_pack<Width>(shape.batch * shape.channels * shape.area, [&]<int Count>(width<Count> some, std::size_t at) {
    const std::size_t before = quotient(at, shape.area);  // areas
    operation(some, before - quotient(before, shape.channels) * shape.channels, at);
  });
}

/// Calls operation(width, channel, at) on the device for numbers at .. at + width of a channel, until all are done.
/// `fit_packs`: whether all loads and stores are aligned for packs of four.
template <class Operation>
void by_channel(const cuda_stream& stream, const channels_shape& shape, bool fit_packs, const Operation& operation) {
  launch(fit_packs && shape.area % 4 == 0 ? by_channel_kernel<4, Operation> : by_channel_kernel<1, Operation>,
         blocks_for_packs(shape.batch * shape.channels * shape.area), stream, shape, operation);
}

}  // namespace troupe::kernels::cuda
