// A step of linear layers with ReLUs on a CUDA device: saving rounded factors and masks of the ReLUs for the backward
// pass changes no bit, also in graphs, and saves launches.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "nn/elementwise.hpp"
#include "nn/linear.hpp"
#include "nn/sequential.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"
#include "tests/nn/layer_checks.hpp"

namespace troupe::nn::sequential_device_test {
namespace {

using kernels::device_array;
using kernels::matmul_precision;
using kernels::test::child_process;
using kernels::test::source_of_numbers;

/// The results of a step.
struct step_result {
  std::vector<float> y, grad_x, grads;
};

/// Linear layers of these widths, with a ReLU after each but the last; the numbers are on the device.
struct trained {
  std::vector<std::size_t> widths;
  sequential network;
  std::vector<parameter> tensors;
  device_array<float> parameters, x, grad_y, grad_x, grads;
};

/// What a batch's passes keep.
struct kept_numbers {
  device_array<float> saved, y;
};

sequential network_of(const std::vector<std::size_t>& widths) {
  sequential made;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) made.add(relu());
    made.add(linear(widths[i], widths[i + 1]));
  }
  return made;
}

class SequentialGpu : public kernels::test::stream_test<kernels::test::on_cuda> {
 protected:
  trained make(const std::vector<std::size_t>& widths, std::size_t batch, std::uint32_t seed) {
    const sequential network = network_of(widths);
    const auto tensors = placed(network.parameters());
    source_of_numbers random(seed);
    return {widths,
            network,
            tensors,
            put(initial_numbers(network, seed).parameters),
            put(random.numbers(batch * widths.front())),
            put(random.numbers(batch * widths.back())),
            buffer<float>(batch * widths.front()),
            buffer<float>(count_of(tensors))};
  }

  std::vector<float> got(kernels::stream& on, const float* from, std::size_t count) {
    on.synchronize();
    return get(from, count);
  }

  /// Runs the step with layers that save nothing: each product rounds its factors, and each ReLU is a kernel.
  step_result plainly(kernels::stream& on, std::size_t batch, const trained& t, bool wants_grad_x = true) {
    const std::size_t layers = t.widths.size() - 1;
    std::vector<device_array<float>> outputs, grads;
    for (std::size_t i = 0; i < layers; ++i) {
      outputs.push_back(buffer<float>(batch * t.widths[i + 1]));
      grads.push_back(buffer<float>(batch * t.widths[i + 1]));
    }
    const auto input_of = [&](std::size_t i) { return i > 0 ? outputs[i - 1].data() : t.x.data(); };
    const auto has_relu = [&](std::size_t i) { return i + 1 < layers; };
    const tensor_list<const float> of{t.parameters.data(), t.tensors};
    for (std::size_t i = 0; i < layers; ++i)
      on.linear_forward(batch, t.widths[i], t.widths[i + 1], input_of(i), of[2 * i].data(), of[2 * i + 1].data(),
                        has_relu(i) ? kernels::activation::relu : kernels::activation::none, outputs[i].data());
    on.copy(t.grad_y.data(), grads.back().data(), batch * t.widths.back() * sizeof(float));
    for (std::size_t i = layers; i-- > 0;) {
      float* const grad = grads[i].data();
      if (has_relu(i)) on.relu_backward(batch * t.widths[i + 1], outputs[i].data(), grad, grad);
      float* const below = i > 0 ? grads[i - 1].data() : t.grad_x.data();
      if (i > 0 || wants_grad_x)
        on.linear_backward_input(batch, t.widths[i], t.widths[i + 1], of[2 * i].data(), grad, below);
    }
    const tensor_list<float> to{t.grads.data(), t.tensors};
    for (std::size_t i = 0; i < layers; ++i)
      on.linear_backward_parameters(batch, t.widths[i], t.widths[i + 1], input_of(i), grads[i].data(), to[2 * i].data(),
                                    to[2 * i + 1].data());
    return result_of(on, batch, t, outputs.back().data(), wants_grad_x);
  }

  /// Grows the kept memory as needed, and leaves another batch's contents in it.
  static pass_numbers numbers(kernels::stream& on, std::size_t batch, const trained& t, kept_numbers& kept) {
    const troupe::shape in(batch, t.widths.front());
    kept.saved.resize(on, t.network.saved(in, on));
    kept.y.resize(on, batch * t.widths.back());
    return {.parameters = {t.parameters.data(), t.tensors},
            .input = {in, t.x.data()},
            .output = {kept.y.data(), {batch, t.widths.back()}},
            .saved = {kept.saved.data(), kept.saved.size()}};
  }

  static void forward(kernels::stream& on, std::size_t batch, const trained& t, kept_numbers& kept,
                      bool training = true) {
    t.network.forward({.stream = on, .training = training}, numbers(on, batch, t, kept));
  }
  static void backward_inputs(kernels::stream& on, std::size_t batch, const trained& t, kept_numbers& kept,
                              bool wants_grad_x = true, bool training = true) {
    gradients of{.output = {t.grad_y.data(), {batch, t.widths.back()}}};
    if (wants_grad_x) of.input = {t.grad_x.data(), {batch, t.widths.front()}};
    t.network.backward({.stream = on, .training = training}, numbers(on, batch, t, kept), of);
  }
  static void backward_parameters(kernels::stream& on, std::size_t batch, const trained& t, kept_numbers& kept,
                                  bool training = true) {
    flat_gradient to(t.grads.data());
    t.network.backward_parameters({.stream = on, .training = training, .is_second_backward = true},
                                  numbers(on, batch, t, kept), {t.grad_y.data(), {batch, t.widths.back()}}, to);
  }

  step_result saving(kernels::stream& on, std::size_t batch, const trained& t, kept_numbers& kept,
                     bool wants_grad_x = true, bool training = true) {
    forward(on, batch, t, kept, training);
    backward_inputs(on, batch, t, kept, wants_grad_x, training);
    backward_parameters(on, batch, t, kept, training);
    return result_of(on, batch, t, kept.y.data(), wants_grad_x);
  }

  step_result result_of(kernels::stream& on, std::size_t batch, const trained& t, const float* y, bool wants_grad_x) {
    return {got(on, y, batch * t.widths.back()),
            wants_grad_x ? got(on, t.grad_x.data(), t.grad_x.size()) : std::vector<float>(),
            got(on, t.grads.data(), t.grads.size())};
  }

  /// A real card may add in another order with another epilogue.
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

  /// The launches of the forward pass, and of the backward passes to the input and to the parameters, for 3 layers and
  /// a batch of 7; empty on a real card.
  std::vector<std::uint64_t> launches(matmul_precision precision) {
    const auto on = device().make_stream(precision);
    const trained t = make({24, 64, 32, 8}, 7, 3);
    kept_numbers kept;
    numbers(*on, 7, t, kept);
    std::vector<std::uint64_t> now;
    const auto count = [&now] { now.push_back(emulated_cuda::counts_now()->launches); };
    if (!emulated_cuda::counts_now()) return {};
    count();
    forward(*on, 7, t, kept);
    count();
    backward_inputs(*on, 7, t, kept);
    count();
    backward_parameters(*on, 7, t, kept);
    count();
    on->synchronize();
    return {now[1] - now[0], now[2] - now[1], now[3] - now[2]};
  }

  /// Runs a disabled test with a cuBLASLt that lacks these epilogues.
  static void expect_without(const char* epilogues, const std::string& test) {
    const std::string output =
        child_process("SequentialGpu.DISABLED_" + test, std::string("TROUPE_EMULATED_CUDA=epilogues=") + epilogues)
            .output();
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << epilogues << ": " << output;
  }
};

constexpr matmul_precision precisions[] = {matmul_precision::f32, matmul_precision::tf32, matmul_precision::bf16};

/// The same memory serves all batches and steps, also those whose forward pass saves no masks.
TEST_F(SequentialGpu, WhatLayersSaveChangesNoBit) {
  for (const matmul_precision precision : precisions) {
    const auto on = device().make_stream(precision);
    for (const std::vector<std::size_t>& widths :
         {std::vector<std::size_t>{24, 130, 8, 24}, {8, 24, 8, 130}, {130, 8, 24, 1}, {24, 24, 24, 24}, {8, 24}}) {
      kept_numbers kept;
      for (const std::size_t batch : {7, 1, 130, 7}) {
        SCOPED_TRACE(testing::PrintToString(widths) + ", batch " + std::to_string(batch) + ", precision " +
                     std::to_string(static_cast<int>(precision)));
        const trained t = make(widths, batch, static_cast<std::uint32_t>(batch + widths[1]));
        trained other = make(widths, batch, 77);
        other.network = t.network;  // the one that knows of the masks
        expect_same(saving(*on, batch, t, kept), plainly(*on, batch, t));
        expect_same(saving(*on, batch, other, kept, true, false),
                    plainly(*on, batch, other));  // the kept mask is that of `t`
        expect_same(saving(*on, batch, t, kept, false), plainly(*on, batch, t, false));
      }
    }
  }
}

/// Like trainers: the forward pass and the backward pass to the input in a graph, the parameters' gradients outside of
/// it. The weights change, and an evaluation comes in between.
TEST_F(SequentialGpu, GraphsRoundTheNewWeightsAndWriteNewMasks) {
  constexpr std::size_t batch = 7;
  for (const matmul_precision precision : precisions) {
    const auto on = device().make_stream(precision);
    trained t = make({24, 64, 130, 8, 8}, batch, 5);
    kept_numbers kept;
    forward(*on, batch, t, kept);
    backward_inputs(*on, batch, t, kept);
    std::unique_ptr<kernels::graph> pass;
    const float* const first[] = {kept.saved.data(), kept.y.data()};
    for (std::uint64_t step = 0; step < 4; ++step) {
      SCOPED_TRACE("precision " + std::to_string(static_cast<int>(precision)) + ", step " + std::to_string(step));
      kernels::assign<float>(*on, initial_numbers(t.network, step).parameters, t.parameters);
      kernels::assign<float>(*on, source_of_numbers(static_cast<std::uint32_t>(step)).numbers(batch * 24), t.x);
      const step_result expected = plainly(*on, batch, t);
      forward(*on, 3, t, kept, false);
      on->capture_or_launch(pass, [&] {
        forward(*on, batch, t, kept);
        backward_inputs(*on, batch, t, kept);
      });
      backward_parameters(*on, batch, t, kept);
      expect_same(result_of(*on, batch, t, kept.y.data(), true), expected);
      EXPECT_EQ(kept.saved.data(), first[0]);
      EXPECT_EQ(kept.y.data(), first[1]);
    }
  }
}

/// In bf16 each layer rounds x and its weights, then its gradient; without the saved ones it would round both factors
/// of each product, and each ReLU would need one more launch.
TEST_F(SequentialGpu, EachFactorIsRoundedOnceAndReluBelongsToTheProduct) {
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

TEST_F(SequentialGpu, DISABLED_TakesAReluOfItsOwnForEachMask) {
  EXPECT_EQ(launches(matmul_precision::bf16), (std::vector<std::uint64_t>{6, 5, 0}));
  EXPECT_EQ(launches(matmul_precision::f32), (std::vector<std::uint64_t>{0, 2, 0}));
}

TEST_F(SequentialGpu, DISABLED_TakesABiasAndItsGradientToo) {
  EXPECT_EQ(launches(matmul_precision::bf16), (std::vector<std::uint64_t>{9, 5, 3}));
}

TEST_F(SequentialGpu, AMaskIsOfItsLayersRowsThoughTheNextHasLongerOnes) {
  const sequential network(linear(4, 3), relu(), flatten(), linear(15, 2));
  source_of_numbers random(3);
  passes here(network, {6, 5, 4}, random.numbers(6 * 5 * 4));
  here.parameters = random.numbers(here.parameters.size());
  const auto grad_y = random.numbers(6 * 2);
  const device_passes there(on(), here, grad_y);
  model::expect_near(there.y, model::in_double(here.forward()), 1e-5);
  const pass_gradients grad = here.backward(grad_y);
  model::expect_near(there.grad.x, model::in_double(grad.x), 1e-5);
  model::expect_near(there.grad.parameters, model::in_double(grad.parameters), 1e-5);
}

TEST_F(SequentialGpu, WithoutEpiloguesTheStepIsTheSameInMoreLaunches) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation can do without epilogues";
  for (const char* const epilogues : {"no_mask", "no_drelu"})
    expect_without(epilogues, "TakesAReluOfItsOwnForEachMask");
  expect_without("none", "TakesABiasAndItsGradientToo");
}

TEST_F(SequentialGpu, WithoutEpiloguesNoBitChanges) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation can do without epilogues";
  for (const char* const epilogues : {"none", "no_mask", "no_drelu"}) {
    const std::string output = child_process("SequentialGpu.WhatLayersSaveChangesNoBit",
                                             std::string("TROUPE_EMULATED_CUDA=epilogues=") + epilogues)
                                   .output();
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << epilogues << ": " << output;
  }
}

}  // namespace
}  // namespace troupe::nn::sequential_device_test
