// Goal: batch normalization over several ranks equals that of one rank with all of their samples. Method: alternating
// passes of two and three ranks, with the means made by the test, compared with one pass of all samples; some ranks
// have no samples.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "actors/trainer/interrupted_pass.hpp"
#include "nn/batch_norm.hpp"
#include "nn/elementwise.hpp"
#include "nn/residual.hpp"
#include "nn/sequential.hpp"
#include "tests/nn/passes.hpp"

namespace troupe::actors::synchronized_norm_test {
namespace {

constexpr std::size_t channels = 3;
const troupe::shape image(channels, 2, 2);
constexpr std::size_t width = 12;

/// The results of a forward and backward pass.
struct made {
  std::vector<float> output;
  std::vector<float> grad_input;
  std::vector<float> grad_parameters;
  std::vector<float> buffers;
};

struct inputs {
  std::vector<float> x;
  std::vector<float> grad;

  std::size_t samples() const { return x.size() / width; }
};

nn::batch_norm norm(bool synchronized) { return nn::batch_norm({.channels = channels, .synchronized = synchronized}); }

/// Two norms, the second inside another module.
nn::sequential network(bool synchronized) {
  return nn::sequential(norm(synchronized), nn::relu(), nn::residual(norm(synchronized)));
}

const std::vector<float> parameters = {0.5F, 2, -1, 0.1F, 0.2F, 0.3F, 1, -0.5F, 3, 0.3F, 0.1F, 0.2F};

made passed(const nn::module& what, const inputs& of, nn::rank_means* ranks) {
  if (of.samples() == 0) {  // it joins the others' passes
    const nn::pass how{.stream = kernels::host_stream(), .training = true, .ranks = ranks};
    const nn::pass_numbers none{.input = nn::batch_of(0, image)};
    what.forward(how, none);
    what.backward(how, none, {});
    return {{}, {}, std::vector<float>(nn::count_of(what.parameters())), {}};
  }
  nn::passes passes(what, nn::batch_of(of.samples(), image), of.x);
  std::copy_n(parameters.begin(), passes.parameters.size(), passes.parameters.begin());
  passes.how.ranks = ranks;
  made result{passes.forward(), {}, {}, {}};
  const nn::pass_gradients grads = passes.backward(of.grad);
  result.grad_input = grads.x;
  result.grad_parameters = grads.parameters;
  result.buffers = passes.buffers.get();
  return result;
}

/// Runs the ranks' passes; the test carries the means between them.
std::vector<made> passed_together(const nn::module& what, const std::vector<inputs>& ranks) {
  std::vector<made> results(ranks.size());
  std::vector<std::unique_ptr<interrupted_pass>> passes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    passes.push_back(std::make_unique<interrupted_pass>(ranks.size()));
    passes[rank]->begin([&, rank] { results[rank] = passed(what, ranks[rank], passes[rank].get()); });
  }
  while (!passes[0]->wanted().empty()) {
    std::vector<float> mean(passes[0]->wanted().size());
    for (const auto& pass : passes) {
      EXPECT_EQ(pass->wanted().size(), mean.size());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += pass->wanted()[i];
    }
    for (float& number : mean) number /= static_cast<float>(ranks.size());
    for (const auto& pass : passes) pass->proceed(mean);
  }
  for (const auto& pass : passes) EXPECT_TRUE(pass->wanted().empty()) << "all ranks wait equally often";
  return results;
}

inputs draw(std::size_t samples, unsigned seed) {
  std::mt19937 random(seed);
  inputs made;
  for (auto* numbers : {&made.x, &made.grad})
    for (std::size_t i = 0; i < samples * width; ++i)
      numbers->push_back(static_cast<float>(random() % 2001) / 500 + (numbers == &made.x ? 5.0F : -2.0F));
  return made;
}

void expect_near(std::span<const float> numbers, std::span<const float> expected, const char* what) {
  ASSERT_EQ(numbers.size(), expected.size()) << what;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(numbers[i], expected[i], 2e-5 * std::max(1.0F, std::abs(expected[i]))) << what << " " << i;
}

void expect_as_alone(const nn::module& synchronized, const nn::module& usual) {
  EXPECT_TRUE(synchronized.synchronizes());
  EXPECT_FALSE(usual.synchronizes());
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{4, 4}, {5, 1, 3}, {6, 0}, {0, 2, 2}}) {
    std::vector<inputs> ranks;
    inputs all;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      ranks.push_back(draw(sizes[rank], static_cast<unsigned>(rank + 1)));
      all.x.insert(all.x.end(), ranks[rank].x.begin(), ranks[rank].x.end());
      all.grad.insert(all.grad.end(), ranks[rank].grad.begin(), ranks[rank].grad.end());
    }
    const made alone = passed(usual, all, nullptr);
    const std::vector<made> together = passed_together(synchronized, ranks);
    std::size_t first = 0;
    std::vector<float> grad_parameters(alone.grad_parameters.size());
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      const std::size_t count = sizes[rank] * width;
      expect_near(together[rank].output, std::span(alone.output).subspan(first, count), "output");
      expect_near(together[rank].grad_input, std::span(alone.grad_input).subspan(first, count),
                  "gradient of the input");
      for (std::size_t i = 0; i < grad_parameters.size(); ++i) grad_parameters[i] += together[rank].grad_parameters[i];
      if (count > 0) expect_near(together[rank].buffers, alone.buffers, "running statistics");
      first += count;
    }
    expect_near(grad_parameters, alone.grad_parameters, "sum of the gradients of the parameters");
  }
}

TEST(SynchronizedNorm, OfSeveralRanksIsThatOfOneWithAllSamples) { expect_as_alone(norm(true), norm(false)); }

TEST(SynchronizedNorm, WithinOtherModulesIsTheSameAlsoForARankWithoutSamples) {
  expect_as_alone(network(true), network(false));
}

TEST(SynchronizedNorm, WithoutOtherRanksIsTheUsualOne) {
  const inputs some = draw(5, 7);
  const made usual = passed(norm(false), some, nullptr);
  const made alone = passed(norm(true), some, nullptr);
  EXPECT_EQ(alone.output, usual.output);
  EXPECT_EQ(alone.grad_input, usual.grad_input);
  EXPECT_EQ(alone.buffers, usual.buffers);
}

}  // namespace
}  // namespace troupe::actors::synchronized_norm_test
