// The example of tensor parallelism: the whole network's losses in double, for any number of slices; the same bits in
// one process and in several.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/example_output.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/layers.hpp"

namespace troupe::tensor_parallel_example_test {
namespace {

using test::output_of;
using reals = std::vector<double>;

constexpr std::size_t width = 16, hidden = 64;

/// A layer y = x W^T + b of the whole network, trained in double by SGD with momentum.
class whole_layer {
 public:
  whole_layer(std::size_t in, std::size_t out, std::uint64_t key) : in_(in), out_(out), speed_(out * in + out) {
    const std::vector<float> first = nn::initial_numbers(nn::linear(in, out), key).parameters;
    w_.assign(first.begin(), first.end());
  }

  reals forward(const reals& x) {
    x_ = x;
    const std::size_t samples = x.size() / in_;
    reals y(samples * out_);
    for (std::size_t n = 0; n < samples; ++n)
      for (std::size_t k = 0; k < out_; ++k) {
        y[n * out_ + k] = w_[out_ * in_ + k];
        for (std::size_t i = 0; i < in_; ++i) y[n * out_ + k] += x[n * in_ + i] * w_[k * in_ + i];
      }
    return y;
  }

  /// Takes a step, and returns the gradient with respect to the last input.
  reals backward(const reals& of_y) {
    const std::size_t samples = of_y.size() / out_;
    reals of_x(samples * in_);
    reals grad(w_.size());
    for (std::size_t n = 0; n < samples; ++n)
      for (std::size_t k = 0; k < out_; ++k) {
        const double one = of_y[n * out_ + k];
        grad[out_ * in_ + k] += one;
        for (std::size_t i = 0; i < in_; ++i) {
          grad[k * in_ + i] += one * x_[n * in_ + i];
          of_x[n * in_ + i] += one * w_[k * in_ + i];
        }
      }
    for (std::size_t i = 0; i < w_.size(); ++i) {
      speed_[i] = 0.9 * speed_[i] + grad[i];
      w_[i] -= 0.5 * speed_[i];
    }
    return of_x;
  }

 private:
  std::size_t in_;
  std::size_t out_;
  reals w_;
  reals speed_;
  reals x_;
};

/// The replicas' batches of 32 samples each, concatenated.
reals inputs_of(std::uint64_t step, std::uint64_t replicas) {
  reals x;
  for (std::uint64_t replica = 0; replica < replicas; ++replica) {
    std::uint64_t noise = 1 + step * 1000 + replica;
    for (std::size_t i = 0; i < 32 * width; ++i) {
      noise = noise * 6364136223846793005U + 1442695040888963407U;
      x.push_back(static_cast<double>(static_cast<float>(static_cast<double>(noise >> 40U) / (1U << 23U) - 1)));
    }
  }
  return x;
}

/// Returns the losses before each step of the example's network.
reals losses_of_the_whole(std::uint64_t seed, std::uint64_t steps, std::uint64_t replicas) {
  std::vector<whole_layer> layers;
  for (std::uint64_t pair = 0; pair < 2; ++pair) {
    layers.emplace_back(width, hidden, (seed << 32U) + 2 * pair);
    layers.emplace_back(hidden, width, (seed << 32U) + 2 * pair + 1);
  }
  reals losses;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const reals inputs = inputs_of(step, replicas);
    reals x = inputs;
    std::vector<reals> before(layers.size());  // the inputs of the gelus
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = before[i] = layers[i].forward(x);
      if (i % 2 == 0)
        for (double& one : x) one *= 0.5 * (1 + std::erf(one / std::numbers::sqrt2));
    }
    double loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double target = std::max(inputs[i], inputs[i / width * width + (i + 1) % width]);
      loss += (x[i] - target) * (x[i] - target) / static_cast<double>(x.size());
      x[i] = 2 * (x[i] - target) / static_cast<double>(x.size());
    }
    losses.push_back(loss);
    for (std::size_t i = layers.size(); i-- > 0;) {
      if (i % 2 == 0)
        for (std::size_t k = 0; k < x.size(); ++k) {
          const double z = before[i][k];
          const double slope = 0.5 * (1 + std::erf(z / std::numbers::sqrt2)) +
                               z * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
          x[k] *= slope;
        }
      x = layers[i].backward(x);
    }
  }
  return losses;
}

reals losses_in(const std::string& output) {
  reals losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    unsigned long long step = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "step %llu: loss %lf", &step, &losses.emplace_back()), 2) << line;
    EXPECT_EQ(step, losses.size());
  }
  return losses;
}

/// Expects that the example has the whole network's losses, whose batch is all replicas' batches.
void expect_losses(const std::string& options, const reals& expected) {
  EXPECT_LT(expected[60], 0.8 * expected[0]) << "it learns";
  const reals losses = losses_in(output_of("tensor_parallel", "--seed 5 --steps 61 --report 1 " + options));
  ASSERT_EQ(losses.size(), 61U) << options;
  for (std::size_t step = 0; step <= 60; ++step)
    EXPECT_NEAR(losses[step], expected[step], step <= 1 ? 1e-5 : 1e-4) << options << ", step " << step;
}

TEST(TensorParallelExample, HasTheLossesOfTheWholeNetwork) {
  const reals of_one = losses_of_the_whole(5, 61, 1);
  for (const std::string slices : {"1", "2", "4", "64"}) expect_losses("--slices " + slices, of_one);
  const reals of_three = losses_of_the_whole(5, 61, 3);
  for (const std::string slices : {"1", "2"}) expect_losses("--replicas 3 --slices " + slices, of_three);
}

TEST(TensorParallelExample, HasTheSameBitsInSeveralProcesses) {
  for (const std::string slices : {"--slices 2", "--slices 4", "--slices 2 --replicas 2"}) {
    const std::string here = output_of("tensor_parallel", slices);
    EXPECT_FINDS(here, "step 60: loss 0.0");
    EXPECT_EQ(output_of("tensor_parallel", slices + " --processes"), here) << slices;
  }
}

TEST(TensorParallelExample, GoesOnFromACheckpoint) {
  const trace::temporary_folder folder;
  const std::string saved = (folder.path() / "run").string();
  const std::string whole =
      output_of("tensor_parallel", "--slices 2 --replicas 2 --checkpoint-every 30 --save " + saved);
  EXPECT_EQ(output_of("tensor_parallel", "--slices 2 --replicas 2"), whole);
  ASSERT_TRUE(std::filesystem::remove(saved + "/step-000000000060.json"));
  EXPECT_EQ(output_of("tensor_parallel", "--slices 2 --replicas 2 --processes --resume " + saved),
            whole.substr(whole.find("step 40")));
}

TEST(TensorParallelExample, IsDoneAgainFromItsRecording) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const std::string recorded =
      output_of("tensor_parallel", "--slices 2 --replicas 2 --processes --trace full --trace-dir " + there);
  EXPECT_EQ(output_of("tensor_parallel", "--replay " + there), recorded);
}

TEST(TensorParallelExample, RefusesWhatItCannotDo) {
  EXPECT_FINDS(output_of("tensor_parallel", "--slices 3 2>&1"), "--hidden 64: must be a multiple of the 3 slices");
  EXPECT_FINDS(output_of("tensor_parallel", "--slices 0 2>&1"), "--slices 0: must be a whole number between 1 and 64");
  EXPECT_FINDS(output_of("tensor_parallel", "--report 0 2>&1"), "--report 0: must be a whole number between 1 and");
}

}  // namespace
}  // namespace troupe::tensor_parallel_example_test
