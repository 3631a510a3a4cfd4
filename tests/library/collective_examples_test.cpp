// The examples of collectives print the expected output, in one process and in several.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "model/random.hpp"
#include "tests/library/example_output.hpp"
#include "troupe/layers.hpp"

namespace troupe::collective_examples_test {
namespace {

using test::output_of;

const std::string each_once = R"(all_reduce sum           6 30
all_reduce mean          2 10
all_reduce min           1 0
all_reduce max           3 20
all_reduce sum of six    3 6 9 12 15 21
all_gather               1 0
all_gather               2 10
all_gather               3 20
reduce_scatter           3 6
broadcast from 2         3 20
gather to 0              1 0
gather to 0              2 10
gather to 0              3 20
scatter from 1           7
recv from 2              3 20
all_reduce of 0 and 2    4 20
)";

TEST(CollectiveExamples, PrintEachCollectiveOnce) {
  EXPECT_EQ(output_of("collectives"), each_once);
  EXPECT_EQ(output_of("collectives", "--processes"), each_once);
}

/// parameter_averaging again, in double: both trainers' weights [2, 2] and biases [2], concatenated.
class averaged {
 public:
  averaged() {
    const std::uint64_t key = model::random_key(1, model::random_stream::dense_weights, 0, 0);
    const std::vector<float> first = nn::initial_numbers(nn::linear(2, 2), key).parameters;
    for (auto& one : of_rank_) std::copy(first.begin(), first.end(), one.begin());
  }

  /// Returns trainer 0's loss.
  double step(int number) {
    const double loss = train(0, number);
    train(1, number);
    for (int i = 0; i < 6 && number % 10 == 0; ++i)
      of_rank_[0][i] = of_rank_[1][i] = (of_rank_[0][i] + of_rank_[1][i]) / 2;
    return loss;
  }

  const std::array<double, 6>& parameters() const { return of_rank_[0]; }

 private:
  double train(std::uint32_t rank, int step) {
    std::array<double, 6>& w = of_rank_[rank];
    std::array<double, 6> grad{};
    double loss = 0;
    for (int i = 0; i < 16; ++i) {
      const double angle = 0.7 * i + 0.1 * step + rank;
      const std::array<double, 2> x = {std::cos(angle), std::sin(3 * angle)};
      const int side = x[0] + (rank == 0 ? 0.5 : 1.5) * x[1] > 0 ? 1 : 0;
      std::array<double, 2> y{};
      for (int k = 0; k < 2; ++k) y[k] = w[2 * k] * x[0] + w[2 * k + 1] * x[1] + w[4 + k];
      const double sum = std::exp(y[0]) + std::exp(y[1]);
      loss -= std::log(std::exp(y[side]) / sum) / 16;
      for (int k = 0; k < 2; ++k) {
        const double of_y = (std::exp(y[k]) / sum - (k == side ? 1 : 0)) / 16;
        grad[2 * k] += of_y * x[0];
        grad[2 * k + 1] += of_y * x[1];
        grad[4 + k] += of_y;
      }
    }
    for (int i = 0; i < 6; ++i) w[i] -= 0.5 * grad[i];
    return loss;
  }

  std::array<std::array<double, 6>, 2> of_rank_{};
};

TEST(CollectiveExamples, AverageParametersAsTheSameIsDoneInDouble) {
  const std::string text = output_of("parameter_averaging");
  std::istringstream lines(text);
  std::string word;
  averaged expected;
  for (int step = 1; step <= 100; ++step) {
    const double expected_loss = expected.step(step);
    if (step % 50 != 0) continue;
    int number = 0;
    double loss = 0;
    ASSERT_TRUE(lines >> word >> number >> word >> word >> loss) << text;
    EXPECT_EQ(number, step);
    EXPECT_NEAR(loss, expected_loss, 1e-5);
    std::vector<double> numbers;
    for (const int count : {4, 2}) {
      lines >> word;  // weight, bias
      for (int i = 0; i < count; ++i) lines >> numbers.emplace_back();
    }
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(numbers[i], expected.parameters()[i], 1e-5) << i;
  }
  EXPECT_EQ(output_of("parameter_averaging", "--processes"), text);
}

}  // namespace
}  // namespace troupe::collective_examples_test
