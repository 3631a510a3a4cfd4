// A step of an MLP on a CUDA device: what its layers save for the backward pass (rounded factors, masks of the ReLUs)
// changes no bit, also in graphs, and saves launches.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "model/mlp.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::model::mlp_device_test {
namespace {

using kernels::device_array;
using kernels::matmul_precision;
using kernels::test::child_process;
using kernels::test::source_of_numbers;

/// What a step computes.
struct step_result {
  std::vector<float> y, grad_x, grads;
};

/// An MLP with numbers on the device.
struct trained {
  mlp network;
  std::vector<std::size_t> widths;
  device_array<float> parameters, x, grad_y, grad_x, grads;
};

class MlpGpu : public kernels::test::stream_test<kernels::test::on_cuda> {
 protected:
  trained make(const std::vector<std::size_t>& widths, std::size_t batch, std::uint32_t seed) {
    const mlp network(widths.front(), std::span(widths).subspan(1, widths.size() - 2), widths.back());
    source_of_numbers random(seed);
    return {network,
            widths,
            put(network.initial_parameters(seed)),
            put(random.numbers(batch * widths.front())),
            put(random.numbers(batch * widths.back())),
            room<float>(batch * widths.front()),
            room<float>(network.parameter_count())};
  }

  std::vector<float> got(kernels::stream& on, const float* from, std::size_t count) {
    on.synchronize();
    return get(from, count);
  }

  /// The step whose layers save nothing: each product rounds its factors, each ReLU is a kernel.
  step_result plainly(kernels::stream& on, std::size_t batch, const trained& t, bool wants_grad_x = true) {
    std::vector<linear> layers;
    for (std::size_t i = 0; i + 1 < t.widths.size(); ++i)
      layers.push_back({t.widths[i], t.widths[i + 1],
                        i + 2 < t.widths.size() ? kernels::activation::relu : kernels::activation::none});
    const std::vector<parameter_range> ranges = t.network.ranges();
    std::vector<device_array<float>> outputs, grads;
    for (const linear& one : layers) {
      outputs.push_back(room<float>(batch * one.out));
      grads.push_back(room<float>(batch * one.out));
    }
    const auto input_of = [&](std::size_t i) { return i > 0 ? outputs[i - 1].data() : t.x.data(); };
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].forward(on, batch, t.parameters.data() + ranges[i].first, input_of(i), outputs[i].data());
    on.copy(t.grad_y.data(), grads.back().data(), batch * t.widths.back() * sizeof(float));
    for (std::size_t i = layers.size(); i-- > 0;) {
      float* const grad = grads[i].data();
      if (layers[i].then == kernels::activation::relu)
        layers[i].backward_activation(on, batch, outputs[i].data(), grad, grad);
      float* const below = i > 0 ? grads[i - 1].data() : t.grad_x.data();
      if (i > 0 || wants_grad_x)
        layers[i].backward_input(on, batch, t.parameters.data() + ranges[i].first, grad, below);
    }
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i].backward_parameters(on, batch, input_of(i), grads[i].data(), t.grads.data() + ranges[i].first);
    return result_of(on, batch, t, outputs.back().data(), wants_grad_x);
  }

  static void backward_parameters(kernels::stream& on, std::size_t batch, const trained& t, const mlp::activations& a) {
    t.network.backward_parameters(
        on, batch, t.x.data(), a, t.grad_y.data(), [&t](parameter_range range) { return t.grads.data() + range.first; },
        [](parameter_range) {});
  }

  step_result saving(kernels::stream& on, std::size_t batch, const trained& t, mlp::activations& a,
                     bool wants_grad_x = true, bool training = true) {
    const float* const y = t.network.forward(on, batch, t.parameters.data(), t.x.data(), a, training);
    t.network.backward_inputs(on, batch, t.parameters.data(), a, t.grad_y.data(),
                              wants_grad_x ? t.grad_x.data() : nullptr);
    backward_parameters(on, batch, t, a);
    return result_of(on, batch, t, y, wants_grad_x);
  }

  step_result result_of(kernels::stream& on, std::size_t batch, const trained& t, const float* y, bool wants_grad_x) {
    return {got(on, y, batch * t.widths.back()),
            wants_grad_x ? got(on, t.grad_x.data(), t.grad_x.size()) : std::vector<float>(),
            got(on, t.grads.data(), t.grads.size())};
  }

  /// A card may add in another order for another epilogue.
  static void expect_same(const step_result& one, const step_result& other) {
    for (const auto numbers : {&step_result::y, &step_result::grad_x, &step_result::grads}) {
      ASSERT_EQ((one.*numbers).size(), (other.*numbers).size());
      if (emulated_cuda::counts_now()) {
        EXPECT_TRUE(kernels::test::same_bits(one.*numbers, other.*numbers));
      } else {
        float largest = 0;
        for (const float number : other.*numbers) largest = std::max(largest, std::abs(number));
        for (std::size_t i = 0; i < (one.*numbers).size(); ++i)
          ASSERT_NEAR((one.*numbers)[i], (other.*numbers)[i], 0.02F * largest) << i;
      }
    }
  }

  /// The launches of forward, of `backward_inputs` and of `backward_parameters`, in 3 layers of a batch of 7; nothing
  /// on a card.
  std::vector<std::uint64_t> launches(matmul_precision precision) {
    const auto on = device().make_stream(precision);
    const trained t = make({24, 64, 32, 8}, 7, 3);
    mlp::activations a;
    std::vector<std::uint64_t> now;
    const auto count = [&now] { now.push_back(emulated_cuda::counts_now()->launches); };
    if (!emulated_cuda::counts_now()) return {};
    count();
    t.network.forward(*on, 7, t.parameters.data(), t.x.data(), a);
    count();
    t.network.backward_inputs(*on, 7, t.parameters.data(), a, t.grad_y.data(), t.grad_x.data());
    count();
    backward_parameters(*on, 7, t, a);
    count();
    on->synchronize();
    return {now[1] - now[0], now[2] - now[1], now[3] - now[2]};
  }

  /// Runs a disabled test where cuBLASLt lacks epilogues.
  static void expect_without(const char* epilogues, const std::string& test) {
    const std::string output =
        child_process("MlpGpu.DISABLED_" + test, std::string("TROUPE_EMULATED_CUDA=epilogues=") + epilogues).output();
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << epilogues << ": " << output;
  }
};

constexpr matmul_precision precisions[] = {matmul_precision::f32, matmul_precision::tf32, matmul_precision::bf16};

/// The same activations serve all batches and steps, also those whose forward pass saves no masks.
TEST_F(MlpGpu, WhatLayersSaveChangesNoBit) {
  for (const matmul_precision precision : precisions) {
    const auto on = device().make_stream(precision);
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>{24, 130, 8, 24}, {8, 24, 8, 130}, {130, 8, 24, 1}, {24, 24, 24, 24}, {8, 24}}) {
      mlp::activations a;
      for (const std::size_t batch : {7, 1, 130, 7}) {
        SCOPED_TRACE(testing::PrintToString(widths) + ", batch " + std::to_string(batch) + ", precision " +
                     std::to_string(static_cast<int>(precision)));
        const trained t = make(widths, batch, static_cast<std::uint32_t>(batch + widths[1]));
        const trained other = make(widths, batch, 77);
        expect_same(saving(*on, batch, t, a), plainly(*on, batch, t));
        expect_same(saving(*on, batch, other, a, true, false), plainly(*on, batch, other));  // the mask is not its own
        expect_same(saving(*on, batch, t, a, false), plainly(*on, batch, t, false));
      }
    }
  }
}

/// As trainers do: forward and `backward_inputs` in a graph, the parameters' gradients outside. The weights change, and
/// an evaluation comes between.
TEST_F(MlpGpu, GraphsRoundTheNewWeightsAndWriteNewMasks) {
  constexpr std::size_t batch = 7;
  for (const matmul_precision precision : precisions) {
    const auto on = device().make_stream(precision);
    trained t = make({24, 64, 130, 8, 8}, batch, 5);
    mlp::activations a;
    t.network.forward(*on, batch, t.parameters.data(), t.x.data(), a);
    t.network.backward_inputs(*on, batch, t.parameters.data(), a, t.grad_y.data(), t.grad_x.data());
    std::unique_ptr<kernels::graph> pass;
    std::vector<const void*> first;
    a.append_addresses(first);
    for (const saved_tensors& saved : a.saved)
      for (const void* const used :
           {static_cast<const void*>(saved.x.data()), static_cast<const void*>(saved.mask.data()),
            static_cast<const void*>(saved.weight.data()), static_cast<const void*>(saved.grad.data())})
        EXPECT_NE(std::find(first.begin(), first.end(), used), first.end());
    for (std::uint64_t step = 0; step < 4; ++step) {
      SCOPED_TRACE("precision " + std::to_string(static_cast<int>(precision)) + ", step " + std::to_string(step));
      kernels::assign<float>(*on, t.network.initial_parameters(step), t.parameters);
      kernels::assign<float>(*on, source_of_numbers(static_cast<std::uint32_t>(step)).numbers(batch * 24), t.x);
      const step_result expected = plainly(*on, batch, t);
      t.network.forward(*on, 3, t.parameters.data(), t.x.data(), a, false);
      on->capture_or_launch(pass, [&] {
        t.network.forward(*on, batch, t.parameters.data(), t.x.data(), a);
        t.network.backward_inputs(*on, batch, t.parameters.data(), a, t.grad_y.data(), t.grad_x.data());
      });
      backward_parameters(*on, batch, t, a);
      expect_same(result_of(*on, batch, t, a.outputs.back().data(), true), expected);
      std::vector<const void*> now;
      a.append_addresses(now);
      EXPECT_EQ(now, first);
    }
  }
}

/// In bf16 each layer rounds x and its weights, then its gradient; without what it saves it would round both factors of
/// each product, and each ReLU would take one more.
TEST_F(MlpGpu, EachFactorIsRoundedOnceAndReluBelongsToTheProduct) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts launches";
  EXPECT_EQ(launches(matmul_precision::bf16), (std::vector<std::uint64_t>{6, 3, 0}));
  EXPECT_EQ(launches(matmul_precision::f32), (std::vector<std::uint64_t>{0, 0, 0}));
  EXPECT_EQ(launches(matmul_precision::tf32), (std::vector<std::uint64_t>{0, 0, 0}));
  const auto on = device().make_stream(matmul_precision::bf16);
  const trained t = make({24, 64, 32, 8}, 7, 3);
  const std::uint64_t before = emulated_cuda::counts_now()->launches;
  plainly(*on, 7, t);
  EXPECT_EQ(emulated_cuda::counts_now()->launches - before, 20U);
}

TEST_F(MlpGpu, DISABLED_TakesAReluOfItsOwnForEachMask) {
  EXPECT_EQ(launches(matmul_precision::bf16), (std::vector<std::uint64_t>{6, 5, 0}));
  EXPECT_EQ(launches(matmul_precision::f32), (std::vector<std::uint64_t>{0, 2, 0}));
}

TEST_F(MlpGpu, DISABLED_TakesABiasAndItsGradientToo) {
  EXPECT_EQ(launches(matmul_precision::bf16), (std::vector<std::uint64_t>{9, 5, 3}));
}

TEST_F(MlpGpu, WithoutEpiloguesTheStepIsTheSameInMoreLaunches) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation can do without epilogues";
  for (const char* const epilogues : {"no_mask", "no_drelu"})
    expect_without(epilogues, "TakesAReluOfItsOwnForEachMask");
  expect_without("none", "TakesABiasAndItsGradientToo");
}

TEST_F(MlpGpu, WithoutEpiloguesNoBitChanges) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation can do without epilogues";
  for (const char* const epilogues : {"none", "no_mask", "no_drelu"}) {
    const std::string output =
        child_process("MlpGpu.WhatLayersSaveChangesNoBit", std::string("TROUPE_EMULATED_CUDA=epilogues=") + epilogues)
            .output();
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << epilogues << ": " << output;
  }
}

}  // namespace
}  // namespace troupe::model::mlp_device_test
