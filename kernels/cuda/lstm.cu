// The gates of an LSTM. A thread handles the four gates of some columns of a row.

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {
namespace {

__device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ float sigmoid_slope(float x) { return fmaf(-x, x, x); }
__device__ float tanh_slope(float x) { return fmaf(-x, x, 1.0F); }

/// Returns the first gate's index in [rows, 4 hidden] for index `at` in [rows, hidden].
__device__ std::size_t first_gate(std::size_t at, std::size_t hidden) { return at + 3 * hidden * quotient(at, hidden); }

/// Requires: rows begin at packs.
template <int Width>
__global__ void lstm_forward_kernel(std::size_t count, std::size_t hidden, const float* recurrent, const float* before,
                                    float* gates, float* c, float* h) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const std::size_t first = first_gate(at, hidden);
    pack<float, Count> gate[4];
    unrolled<4>([&](int g) {
      const std::size_t place = first + static_cast<unsigned>(g) * hidden;
      const auto of_state = load_pack<Count>(recurrent + place);
      gate[g] = load_pack<Count>(gates + place);
      unrolled<Count>([&](int k) {
        const float sum = gate[g].at[k] + of_state.at[k];
        gate[g].at[k] = g == 2 ? tanhf(sum) : sigmoid(sum);
      });
      store_pack(gate[g], gates + place);
    });
    auto cell = load_pack<Count>(before + at);
    pack<float, Count> made{};
    unrolled<Count>([&](int k) {
      cell.at[k] = fmaf(gate[1].at[k], cell.at[k], gate[0].at[k] * gate[2].at[k]);
      made.at[k] = gate[3].at[k] * tanhf(cell.at[k]);
    });
    store_pack(cell, c + at);
    store_pack(made, h + at);
  });
}

/// Requires: rows begin at packs.
template <int Width>
__global__ void lstm_backward_kernel(std::size_t count, std::size_t hidden, const float* before, const float* c,
                                     const float* grad_h, float* grad_c, float* gates) {
  for_each_pack<Width>(count, [&]<int Count>(width<Count>, std::size_t at) {
    const std::size_t first = first_gate(at, hidden);
    pack<float, Count> gate[4];
    unrolled<4>([&](int g) { gate[g] = load_pack<Count>(gates + first + static_cast<unsigned>(g) * hidden); });
    const auto old = load_pack<Count>(before + at);
    const auto cell = load_pack<Count>(c + at);
    const auto of_h = load_pack<Count>(grad_h + at);
    auto of_c = load_pack<Count>(grad_c + at);
    unrolled<Count>([&](int k) {
      const float input = gate[0].at[k];
      const float forget = gate[1].at[k];
      const float candidate = gate[2].at[k];
      const float output = gate[3].at[k];
      const float bent = tanhf(cell.at[k]);
      const float grad = fmaf(of_h.at[k] * output, tanh_slope(bent), of_c.at[k]);
      gate[0].at[k] = grad * candidate * sigmoid_slope(input);
      gate[1].at[k] = grad * old.at[k] * sigmoid_slope(forget);
      gate[2].at[k] = grad * input * tanh_slope(candidate);
      gate[3].at[k] = of_h.at[k] * bent * sigmoid_slope(output);
      of_c.at[k] = grad * forget;
    });
    unrolled<4>([&](int g) { store_pack(gate[g], gates + first + static_cast<unsigned>(g) * hidden); });
    store_pack(of_c, grad_c + at);
  });
}

}  // namespace

void cuda_stream::lstm_forward(std::size_t rows, std::size_t hidden, const float* recurrent, const float* before,
                               float* gates, float* c, float* h) {
  const bool packs = hidden % 4 == 0 && fits_packs<4>(recurrent) && fits_packs<4>(before) && fits_packs<4>(gates) &&
                     fits_packs<4>(c) && fits_packs<4>(h);
  launch(packs ? lstm_forward_kernel<4> : lstm_forward_kernel<1>, blocks_for_packs(rows * hidden), *this, rows * hidden,
         hidden, recurrent, before, gates, c, h);
}

void cuda_stream::lstm_backward(std::size_t rows, std::size_t hidden, const float* before, const float* c,
                                const float* grad_h, float* grad_c, float* gates) {
  const bool packs = hidden % 4 == 0 && fits_packs<4>(before) && fits_packs<4>(c) && fits_packs<4>(grad_h) &&
                     fits_packs<4>(grad_c) && fits_packs<4>(gates);
  launch(packs ? lstm_backward_kernel<4> : lstm_backward_kernel<1>, blocks_for_packs(rows * hidden), *this,
         rows * hidden, hidden, before, c, grad_h, grad_c, gates);
}

}  // namespace troupe::kernels::cuda
