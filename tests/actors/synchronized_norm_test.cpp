// Goal: batch normalisation over several ranks is that of one rank with all of their samples. Method: two and three
// ranks' passes in turn, with the means made by the test, beside a pass of all samples; a rank without samples stands
// by.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "actors/interrupted_pass.hpp"
#include "model/layer_spec.hpp"

namespace troupe::actors::synchronized_norm_test {
namespace {

using namespace model;

constexpr std::size_t channels = 3;
const sample_shape image = {channels, 2, 2};
constexpr std::size_t width = 12;

/// What a pass there and back has made.
struct made {
  std::vector<float> output;
  std::vector<float> grad_input;
  std::vector<float> grad_parameters = std::vector<float>(2 * channels);
  std::vector<float> buffers = std::vector<float>(2 * channels);
};

struct inputs {
  std::vector<float> x;
  std::vector<float> grad;

  std::size_t samples() const { return x.size() / width; }
};

std::unique_ptr<const layer> norm(bool synchronized) {
  auto layer = make_layer({.kind = layer_kind::batch_norm, .synchronized = synchronized}, 0, image);
  EXPECT_TRUE(layer);
  return std::move(*layer);
}

const std::vector<float> parameters = {0.5F, 2, -1, 0.1F, 0.2F, 0.3F};

made passed(const layer& one, const inputs& of, rank_means* ranks) {
  made result;
  one.initialize(0, std::vector<float>(2 * channels).data(), result.buffers.data());
  if (of.samples() == 0) {
    one.stand_by_forward(*ranks);
    one.stand_by_backward(*ranks);
    return result;
  }
  result.output.resize(of.x.size());
  result.grad_input.resize(of.x.size());
  std::vector<float> saved(one.saved(of.samples()));
  const layer::pass how{.on = kernels::host_stream(), .size = of.samples(), .training = true, .ranks = ranks};
  const layer::numbers numbers{parameters.data(), result.buffers.data(), of.x.data(), result.output.data(),
                               saved.data()};
  one.forward(how, numbers);
  one.backward_input(how, numbers, of.grad.data(), result.grad_input.data());
  one.backward_parameters(how, numbers, of.grad.data(), result.grad_parameters.data());
  return result;
}

/// The ranks' passes, between which the test carries the means.
std::vector<made> passed_together(const std::vector<inputs>& ranks) {
  const auto one = norm(true);
  std::vector<made> results(ranks.size());
  std::vector<std::unique_ptr<interrupted_pass>> passes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    passes.push_back(std::make_unique<interrupted_pass>(ranks.size()));
    passes[rank]->begin([&, rank] { results[rank] = passed(*one, ranks[rank], passes[rank].get()); });
  }
  while (!passes[0]->wanted().empty()) {
    std::vector<float> mean(passes[0]->wanted().size());
    for (const auto& pass : passes) {
      EXPECT_EQ(pass->wanted().size(), mean.size());
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += pass->wanted()[i];
    }
    for (float& number : mean) number /= static_cast<float>(ranks.size());
    for (const auto& pass : passes) pass->go_on(mean);
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

TEST(SynchronizedNorm, OfSeveralRanksIsThatOfOneWithAllSamples) {
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{4, 4}, {5, 1, 3}, {6, 0}, {0, 2, 2}}) {
    std::vector<inputs> ranks;
    inputs all;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      ranks.push_back(draw(sizes[rank], static_cast<unsigned>(rank + 1)));
      all.x.insert(all.x.end(), ranks[rank].x.begin(), ranks[rank].x.end());
      all.grad.insert(all.grad.end(), ranks[rank].grad.begin(), ranks[rank].grad.end());
    }
    const made alone = passed(*norm(false), all, nullptr);
    const std::vector<made> together = passed_together(ranks);
    std::size_t first = 0;
    std::vector<float> grad_parameters(2 * channels);
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

TEST(SynchronizedNorm, WithoutOtherRanksIsTheUsualOne) {
  const inputs some = draw(5, 7);
  const made usual = passed(*norm(false), some, nullptr);
  const made alone = passed(*norm(true), some, nullptr);
  EXPECT_EQ(alone.output, usual.output);
  EXPECT_EQ(alone.grad_input, usual.grad_input);
  EXPECT_EQ(alone.buffers, usual.buffers);
}

}  // namespace
}  // namespace troupe::actors::synchronized_norm_test
