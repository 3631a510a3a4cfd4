// Which weight the error of a non-finite loss names.

#include "actors/trainer/trained_parameters.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::actors::trained_parameters_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::string words_with(const std::vector<float>& weights) {
  trained_parameters::options chosen;
  chosen.names = {{"first.weight", {2, 2}, 0}, {"second.bias", {3}, 4}};
  trained_parameters numbers({{0, 4}, {4, 3}}, kernels::host_device(), chosen);
  numbers.start(weights, {});
  return numbers.loss_text(nan);
}

TEST(TrainedParameters, NameTheFirstWeightThatIsSpoiltWhenTheLossIs) {
  EXPECT_EQ(words_with({1, 2, 3, 4, 5, -infinity, infinity}),
            "the loss is NaN; a dense weight, second.bias [3], is Inf (number 1 of 3); try a smaller learning rate "
            "(--dense-lr, --sparse-lr)");
}

TEST(TrainedParameters, NameTheLargestOfFiniteWeightsWhenTheLossIsSpoilt) {
  EXPECT_EQ(words_with({1, 2, -3e30F, 4, 5, 6, 7}),
            "the loss is NaN; the largest dense weight, first.weight [2, 2], is -3e+30 (number 2 of 4); try a smaller "
            "learning rate (--dense-lr, --sparse-lr)");
}

}  // namespace
}  // namespace troupe::actors::trained_parameters_test
