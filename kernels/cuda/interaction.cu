// Dot products of all pairs of a sample's vectors, and their gradients. A warp handles a sample. Dots are summed in
// index order, gradients in the order of the vectors, by fused multiply-add.

#include <algorithm>
#include <string>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/launch.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned warps = block_threads / warp_lanes;

template <class T>
struct vectors {
  row_matrix<T> at[interaction_vectors_max];
};

template <class T>
vectors<T> as_parameter(std::span<const row_matrix<T>> x) {
  vectors<T> all{};
  std::copy(x.begin(), x.end(), all.at);
  return all;
}

/// Index of pair (i, j), i > j.
__device__ unsigned pair_of(unsigned i, unsigned j) { return i * (i - 1) / 2 + j; }

/// How many floats of a sample's vectors are in shared memory at once.
constexpr unsigned shared_floats = 1536;
/// The vectors on each side of the tile of pairs that a lane sums.
constexpr int pair_tile = 4;

/// Loads columns first .. first + columns of the sample's vectors, `pitch` floats per vector.
__device__ void load_columns(const vectors<const float>& x, unsigned n, std::size_t sample, std::size_t first,
                             unsigned columns, unsigned pitch, float* to) {
  for (unsigned i = 0; i < n; ++i) {
    const float* const from = x.at[i].data + sample * x.at[i].stride + first;
    for (unsigned c = threadIdx.x % warp_lanes; c < columns; c += warp_lanes) to[i * pitch + c] = from[c];
  }
}

/// Adds the products of the loaded columns to the dots of a tile.
__device__ void add_products(const float* loaded, unsigned n, unsigned columns, unsigned pitch, unsigned row,
                             unsigned col, float (&dots)[pair_tile][pair_tile]) {
  for (unsigned c = 0; c < columns; ++c) {
    float left[pair_tile];
    float right[pair_tile];
    unrolled<pair_tile>([&](int k) {
      left[k] = loaded[(row + k < n ? row + k : 0) * pitch + c];  // dots beyond the end are not stored
      right[k] = loaded[(col + k < n ? col + k : 0) * pitch + c];
    });
    unrolled<pair_tile>(
        [&](int i) { unrolled<pair_tile>([&](int j) { dots[i][j] = fmaf(left[i], right[j], dots[i][j]); }); });
  }
}

/// The tiles of the lower triangle are numbered by rows; lane l handles tiles l, l + `warp_lanes`, ...
__global__ void __launch_bounds__(block_threads)
    dots_kernel(std::size_t batch, std::size_t dim, const __grid_constant__ vectors<const float> x, unsigned n,
                row_matrix<float> dots) {
  __shared__ float shared[warps][shared_floats];
  float* const loaded = shared[threadIdx.x / warp_lanes];
  const std::size_t sample = global_thread() / warp_lanes;
  const unsigned pitch = (shared_floats / n - 1) | 1;  // odd: lanes read from different banks
  const unsigned tile_rows = (n + pair_tile - 1) / pair_tile;
  const unsigned tiles = tile_rows * (tile_rows + 1) / 2;
  for (unsigned first_tile = 0; first_tile < tiles; first_tile += warp_lanes) {
    const unsigned mine = first_tile + threadIdx.x % warp_lanes;
    unsigned tile_row = 0;
    while (pair_of(tile_row + 2, 0) <= mine) ++tile_row;
    const unsigned row = tile_row * pair_tile;
    const unsigned col = (mine - pair_of(tile_row + 1, 0)) * pair_tile;
    float sums[pair_tile][pair_tile] = {};
    for (std::size_t first = 0; first < dim; first += pitch) {
      const unsigned columns = dim - first < pitch ? static_cast<unsigned>(dim - first) : pitch;
      __syncthreads();
      if (sample < batch) load_columns(x, n, sample, first, columns, pitch, loaded);
      __syncthreads();
      if (sample < batch && mine < tiles) add_products(loaded, n, columns, pitch, row, col, sums);
    }
    if (sample >= batch || mine >= tiles) continue;
    unrolled<pair_tile>([&](int k) {
      const unsigned i = row + k;
      unrolled<pair_tile>([&](int l) {
        const unsigned j = col + l;
        if (i < n && j < i) dots.data[sample * dots.stride + pair_of(i, j)] = sums[k][l];
      });
    });
  }
}

/// How many vectors' gradients a lane sums for one column.
constexpr int gradient_rows = 4;

/// grads[j][k] = the gradient of the dot of vectors j and first + k; 0 if they are the same vector or one does not
/// exist.
__device__ void load_gradients(const float* grad_dots, unsigned n, unsigned first, float (*grads)[gradient_rows]) {
  for (unsigned at = threadIdx.x % warp_lanes; at < n * gradient_rows; at += warp_lanes) {
    const unsigned j = at / gradient_rows;
    const unsigned i = first + at % gradient_rows;
    float grad = 0;
    if (i < n && i != j) grad = grad_dots[i > j ? pair_of(i, j) : pair_of(j, i)];
    grads[j][at % gradient_rows] = grad;
  }
}

__global__ void __launch_bounds__(block_threads)
    dots_backward_kernel(std::size_t batch, std::size_t dim, const __grid_constant__ vectors<const float> x, unsigned n,
                         row_matrix<const float> grad_dots, const __grid_constant__ vectors<float> grad_x) {
  __shared__ float shared[warps][interaction_vectors_max][gradient_rows];
  float(*const grads)[gradient_rows] = shared[threadIdx.x / warp_lanes];
  const std::size_t sample = global_thread() / warp_lanes;
  for (unsigned first = 0; first < n; first += gradient_rows) {
    __syncthreads();
    if (sample < batch) load_gradients(grad_dots.data + sample * grad_dots.stride, n, first, grads);
    __syncthreads();
    if (sample >= batch) continue;
    for (std::size_t c = threadIdx.x % warp_lanes; c < dim; c += warp_lanes) {
      float sums[gradient_rows] = {};
      for (unsigned j = 0; j < n; ++j) {
        const float value = x.at[j].data[sample * x.at[j].stride + c];
        unrolled<gradient_rows>([&](int k) { sums[k] = fmaf(grads[j][k], value, sums[k]); });
      }
      unrolled<gradient_rows>([&](int k) {
        if (first + k < n) grad_x.at[first + k].data[sample * grad_x.at[first + k].stride + c] = sums[k];
      });
    }
  }
}

void check_vectors(std::size_t count) {
  if (count <= interaction_vectors_max) return;
  throw device_error("a CUDA device takes the dots of at most " + std::to_string(interaction_vectors_max) +
                     " vectors, not " + std::to_string(count) + "; run this model on the processor");
}

}  // namespace

void cuda_stream::pairwise_dots(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                                row_matrix<float> dots) {
  check_vectors(x.size());
  if (x.size() < 2) return;
  launch(dots_kernel, blocks_for(batch * warp_lanes), *this, batch, dim, as_parameter(x),
         static_cast<unsigned>(x.size()), dots);
}

void cuda_stream::pairwise_dots_backward(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                                         row_matrix<const float> grad_dots, std::span<const row_matrix<float>> grad_x) {
  check_vectors(x.size());
  if (x.empty()) return;
  launch(dots_backward_kernel, blocks_for(batch * warp_lanes), *this, batch, dim, as_parameter(x),
         static_cast<unsigned>(x.size()), grad_dots, as_parameter(grad_x));
}

}  // namespace troupe::kernels::cuda
