// Tables whose rows are indexed by ids among a network's numbers. A group of lanes handles a row of the output, or sums
// the gradient of a row of the table: for that it scans all ids, as other groups do at the same time, in the same
// order.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {
namespace {

__global__ void embedding_forward_kernel(std::size_t count, std::size_t rows, std::size_t dim, lane_share share,
                                         const float* ids, const float* table, float* y) {
  for (std::size_t i = share.item(); i < count; i += share.items_at_once()) {
    const float id = ids[i];
    const bool is_row = id >= 0 && id < static_cast<float>(rows) && truncf(id) == id;
    for (std::size_t c = share.lane(); c < dim; c += share.lanes())
      y[i * dim + c] = is_row ? table[static_cast<std::size_t>(id) * dim + c] : NAN;
  }
}

__global__ void embedding_backward_kernel(std::size_t count, std::size_t rows, std::size_t dim, lane_share share,
                                          const float* ids, const float* grad_y, float* grad_table) {
  for (std::size_t row = share.item(); row < rows; row += share.items_at_once()) {
    const auto id = static_cast<float>(row);
    for (std::size_t c = share.lane(); c < dim; c += share.lanes()) {
      float sum = 0;
      for (std::size_t i = 0; i < count; ++i)
        if (ids[i] == id) sum += grad_y[i * dim + c];
      grad_table[row * dim + c] = sum;
    }
  }
}

}  // namespace

void cuda_stream::embedding_forward(std::size_t count, std::size_t rows, std::size_t dim, const float* ids,
                                    const float* table, float* y) {
  const lane_share share = share_for(dim, 1);
  launch(embedding_forward_kernel, share.blocks(count), *this, count, rows, dim, share, ids, table, y);
}

void cuda_stream::embedding_backward(std::size_t count, std::size_t rows, std::size_t dim, const float* ids,
                                     const float* grad_y, float* grad_table) {
  const lane_share share = share_for(dim, 1);
  launch(embedding_backward_kernel, share.blocks(rows), *this, count, rows, dim, share, ids, grad_y, grad_table);
}

}  // namespace troupe::kernels::cuda
