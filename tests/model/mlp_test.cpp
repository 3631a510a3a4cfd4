// The whole network against plain double arithmetic, the order in which its gradients become ready, and the buckets.

#include "model/mlp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernels/helping_threads.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"

namespace troupe::model::mlp_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr float nan_float = std::numeric_limits<float>::quiet_NaN();

mlp network_of(const std::vector<std::size_t>& widths) {
  return {widths.front(), std::span(widths).subspan(1, widths.size() - 2), widths.back()};
}

std::vector<std::vector<std::size_t>> networks() {
  return {{1, 1}, {3, 2}, {5, 7, 3}, {17, 33, 1}, {9, 16, 8, 4, 2}, {65, 100, 31, 1}, {2, 1, 1, 1}};
}

std::span<const float> numbers_of(const kernels::device_array<float>& array) { return {array.data(), array.size()}; }

/// Backward into one buffer, as if nobody waited for the parts.
std::vector<float> gradients_of(const mlp& network, std::size_t batch, const std::vector<float>& parameters,
                                const std::vector<float>& x, mlp::activations& a, const std::vector<float>& grad_y,
                                float* grad_x) {
  std::vector<float> grads(parameters.size(), nan_float);
  network.backward_inputs(kernels::host_stream(), batch, parameters.data(), a, grad_y.data(), grad_x);
  network.backward_parameters(
      kernels::host_stream(), batch, x.data(), a, grad_y.data(),
      [&](parameter_range range) { return grads.data() + range.first; }, [](parameter_range) {});
  return grads;
}

std::vector<std::pair<std::size_t, std::size_t>> in_pairs(const std::vector<parameter_range>& ranges) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const auto& range : ranges) pairs.emplace_back(range.first, range.count);
  return pairs;
}

TEST(Mlp, ForwardAndBackwardAreThoseOfTheFormula) {
  source_of_numbers random(1);
  for (const auto& widths : networks()) {
    for (const std::size_t batch : {1, 2, 7, 33}) {
      SCOPED_TRACE(testing::PrintToString(widths) + ", batch " + std::to_string(batch));
      const mlp network = network_of(widths);
      ASSERT_EQ(network.in_features(), widths.front());
      ASSERT_EQ(network.out_features(), widths.back());
      const auto parameters = network.initial_parameters(batch);
      ASSERT_EQ(parameters.size(), network.parameter_count());
      const auto x = random.numbers(batch * widths.front());
      const auto grad_y = random.numbers(batch * widths.back());
      mlp::activations a;
      const float* y = network.forward(kernels::host_stream(), batch, parameters.data(), x.data(), a);
      ASSERT_EQ(y, a.outputs.back().data());
      const reference_network reference{widths};
      expect_near(numbers_of(a.outputs.back()), reference.forward(batch, in_double(parameters), in_double(x)), 1e-5);
      std::vector<float> grad_x(x.size(), nan_float);
      const auto grads = gradients_of(network, batch, parameters, x, a, grad_y, grad_x.data());
      expect_gradients(reference, batch, parameters, x, grad_y, grads, grad_x, 1e-5);
    }
  }
}

TEST(Mlp, WithoutAGradientOfItsInputTheParametersGradientsAreTheSame) {
  source_of_numbers random(4);
  for (const auto& widths : networks()) {
    const mlp network = network_of(widths);
    const auto parameters = network.initial_parameters(5);
    const auto x = random.numbers(3 * widths.front());
    const auto grad_y = random.numbers(3 * widths.back());
    mlp::activations a;
    network.forward(kernels::host_stream(), 3, parameters.data(), x.data(), a);
    std::vector<float> grad_x(x.size());
    const auto with = gradients_of(network, 3, parameters, x, a, grad_y, grad_x.data());
    EXPECT_TRUE(kernels::test::same_bits(with, gradients_of(network, 3, parameters, x, a, grad_y, nullptr)))
        << testing::PrintToString(widths);
  }
}

TEST(Mlp, LayersFinishFromTheLastToTheFirstEachOneComplete) {
  source_of_numbers random(2);
  for (const auto& widths : networks()) {
    SCOPED_TRACE(testing::PrintToString(widths));
    const mlp network = network_of(widths);
    const auto ranges = network.ranges();
    const auto parameters = network.initial_parameters(3);
    const auto x = random.numbers(5 * widths.front());
    const auto grad_y = random.numbers(5 * widths.back());
    mlp::activations a;
    network.forward(kernels::host_stream(), 5, parameters.data(), x.data(), a);
    const auto final_grads = gradients_of(network, 5, parameters, x, a, grad_y, nullptr);

    std::vector<float> grads(parameters.size(), nan_float);
    std::vector<parameter_range> asked;
    std::vector<parameter_range> done;
    network.backward_inputs(kernels::host_stream(), 5, parameters.data(), a, grad_y.data(), nullptr);
    network.backward_parameters(
        kernels::host_stream(), 5, x.data(), a, grad_y.data(),
        [&](parameter_range range) {
          asked.push_back(range);
          return grads.data() + range.first;
        },
        [&](parameter_range range) {
          done.push_back(range);
          ASSERT_LE(done.size(), asked.size()) << "finished before it was begun";
          const std::vector<parameter_range> begun(asked.begin(),
                                                   asked.begin() + static_cast<std::ptrdiff_t>(done.size()));
          EXPECT_EQ(in_pairs(begun), in_pairs(done));
          // From here on it is final, and nothing below has been written.
          EXPECT_TRUE(kernels::test::same_bits(std::span(grads).subspan(range.first),
                                               std::span(final_grads).subspan(range.first)));
          EXPECT_TRUE(std::all_of(grads.begin(), grads.begin() + static_cast<std::ptrdiff_t>(range.first),
                                  [](float g) { return std::isnan(g); }));
        });
    EXPECT_EQ(in_pairs(asked), in_pairs(done));
    std::reverse(done.begin(), done.end());
    EXPECT_EQ(in_pairs(done), in_pairs(ranges));
  }
}

TEST(Mlp, LayersWhoseGradientsOtherThreadsComputeHaveTheSameBitsAndFinishInOrder) {
  source_of_numbers random(6);
  constexpr std::size_t batch = 256;
  const mlp network = network_of({64, 200, 100, 50, 1});
  const auto parameters = network.initial_parameters(3);
  const auto x = random.numbers(batch * 64);
  const auto grad_y = random.numbers(batch);
  mlp::activations a;
  network.forward(kernels::host_stream(), batch, parameters.data(), x.data(), a);
  const auto expected = gradients_of(network, batch, parameters, x, a, grad_y, nullptr);
  const auto expect_same = [&](const auto& threads) {
    const kernels::idle_threads_in_use in_use(threads);
    std::vector<float> grads(parameters.size(), nan_float);
    std::vector<parameter_range> done;
    const auto caller = std::this_thread::get_id();
    network.backward_parameters(
        kernels::host_stream(), batch, x.data(), a, grad_y.data(),
        [&](parameter_range range) { return grads.data() + range.first; },
        [&](parameter_range range) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          EXPECT_TRUE(same_bits(std::span(grads).subspan(range.first), std::span(expected).subspan(range.first)));
          done.push_back(range);
        });
    EXPECT_GT(threads->offers(), 0U);
    std::reverse(done.begin(), done.end());
    EXPECT_EQ(in_pairs(done), in_pairs(network.ranges()));
  };
  expect_same(std::make_shared<kernels::test::hasty_thread>());
  expect_same(std::make_shared<kernels::test::helping_threads>(1));
  expect_same(std::make_shared<kernels::test::helping_threads>(3));
}

TEST(Mlp, RangesAreTheLinearLayersOneAfterTheOther) {
  const mlp network = network_of({3, 5, 2, 1});
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(in_pairs(network.ranges()), (pairs{{0, 20}, {20, 12}, {32, 3}}));
  EXPECT_EQ(network.parameter_count(), 35U);
}

TEST(Mlp, ASmallerBatchReusesTheBuffersOfALargerOne) {
  source_of_numbers random(4);
  const mlp network = network_of({9, 16, 8, 2});
  const auto parameters = network.initial_parameters(1);
  const auto large = random.numbers(20 * 9);
  const auto x = random.numbers(3 * 9);
  const auto grad_y = random.numbers(20 * 2);
  mlp::activations fresh;
  network.forward(kernels::host_stream(), 3, parameters.data(), x.data(), fresh);
  const auto expected = gradients_of(network, 3, parameters, x, fresh, grad_y, nullptr);
  mlp::activations used;
  network.forward(kernels::host_stream(), 20, parameters.data(), large.data(), used);
  gradients_of(network, 20, parameters, large, used, grad_y, nullptr);
  network.forward(kernels::host_stream(), 3, parameters.data(), x.data(), used);
  EXPECT_TRUE(kernels::test::same_bits(numbers_of(used.outputs.back()), numbers_of(fresh.outputs.back())));
  EXPECT_TRUE(kernels::test::same_bits(gradients_of(network, 3, parameters, x, used, grad_y, nullptr), expected));
}

TEST(Mlp, InitialParametersAreWithinTheBoundsOfTheirLayer) {
  const std::vector<std::size_t> widths = {50, 200, 10, 3};
  const mlp network = network_of(widths);
  const auto parameters = network.initial_parameters(7);
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto [first, count] = network.ranges()[i];
    const double bound = 1 / std::sqrt(static_cast<double>(widths[i]));
    float largest = 0;
    for (std::size_t k = first; k < first + count; ++k) largest = std::max(largest, std::abs(parameters[k]));
    EXPECT_LE(largest, static_cast<float>(bound)) << "layer " << i;
    EXPECT_GT(largest, 0.9 * bound) << "layer " << i;
  }
}

TEST(Mlp, InitialParametersDependOnTheSeedAndDifferBetweenLayers) {
  const mlp network = network_of({4, 4, 4});
  const auto parameters = network.initial_parameters(7);
  EXPECT_TRUE(kernels::test::same_bits(parameters, network.initial_parameters(7)));
  const auto other = network.initial_parameters(8);
  for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_NE(parameters[i], other[i]) << i;
  for (std::size_t i = 0; i < 20; ++i) EXPECT_NE(parameters[i], parameters[20 + i]) << i;
  // Layers further on do not change those before.
  const auto deeper = network_of({4, 4, 4, 4}).initial_parameters(7);
  EXPECT_TRUE(kernels::test::same_bits(std::span(deeper).first(40), parameters));
}

// Layers of 10, 20, 30 and 40 parameters, thus of 40, 80, 120 and 160 bytes; the last one finishes first.
TEST(Mlp, BucketsAreClosedWhenTheyHaveReachedTheirSize) {
  using pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  const std::vector<parameter_range> layers = {{0, 10}, {10, 20}, {30, 30}, {60, 40}};
  EXPECT_EQ(in_pairs(plan_buckets(layers, 1, 1)), (pairs{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 1000, 1000)), (pairs{{0, 100}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 160, 1000)), (pairs{{60, 40}, {0, 60}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 161, 1)), (pairs{{30, 70}, {10, 20}, {0, 10}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 1, 120)), (pairs{{60, 40}, {30, 30}, {0, 30}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 1, 121)), (pairs{{60, 40}, {10, 50}, {0, 10}}));
  EXPECT_EQ(in_pairs(plan_buckets(layers, 0, 0)), (pairs{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
  EXPECT_TRUE(plan_buckets({}, 1, 1).empty());
}

TEST(Mlp, BucketsCoverEveryParameterOnceFromTheLastToTheFirst) {
  source_of_numbers random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<parameter_range> layers;
    std::size_t total = 0;
    for (std::size_t i = 0, count = 1 + random.below(12); i < count; ++i) {
      layers.push_back({total, 1 + random.below(100)});
      total += layers.back().count;
    }
    const std::size_t first_bytes = random.below(500);
    const std::size_t bytes = random.below(1500);
    const auto buckets = plan_buckets(layers, first_bytes, bytes);
    std::size_t end = total;
    std::size_t layer = layers.size();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      ASSERT_EQ(buckets[i].first + buckets[i].count, end);
      end = buckets[i].first;
      while (layer > 0 && layers[layer - 1].first >= end) --layer;
      ASSERT_EQ(layers[layer].first, end) << "cuts through a layer";
      const std::size_t limit = i == 0 ? first_bytes : bytes;
      if (i + 1 < buckets.size()) {
        ASSERT_GE(buckets[i].count * sizeof(float), limit);
      }
      // It was open until its last layer came.
      if (buckets[i].count > layers[layer].count) {
        ASSERT_LT((buckets[i].count - layers[layer].count) * sizeof(float), limit);
      }
    }
    ASSERT_EQ(end, 0U);
  }
}

}  // namespace
}  // namespace troupe::model::mlp_test
