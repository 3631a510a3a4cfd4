// Updates dense weights.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/optimizer_steps.hpp"

namespace troupe::kernels::cuda {
namespace {

template <int Width>
__global__ void step_kernel(update_constants c, std::size_t count, float* weights, optimizer_state_view state,
                            const float* grad) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    optimizer_step(c, at, weights, state, load_pack<Count>(grad + at));
  });
}

}  // namespace

void cuda_stream::update_dense(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
                               const float* grad) {
  const bool packs =
      fits_packs<4>(weights) && fits_packs<4>(state.first) && fits_packs<4>(state.second) && fits_packs<4>(grad);
  launch(packs ? step_kernel<4> : step_kernel<1>, blocks_for_packs(count), *this, c, count, weights, state, grad);
}

}  // namespace troupe::kernels::cuda
