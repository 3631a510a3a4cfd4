// Slices of a network under tensor parallelism: together, on threads that wait for each other, they compute the numbers
// of the whole network; which layers are split; refusals.

#include "model/tensor_parallel.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model/stages.hpp"
#include "nn/layer_spec.hpp"
#include "nn/slice_sums.hpp"
#include "tests/kernels/support.hpp"
#include "tests/nn/passes.hpp"

namespace troupe::model::tensor_parallel_test {
namespace {

using kernels::test::source_of_numbers;

std::vector<nn::layer_spec> layers_of(const std::string& json) { return nn::parse_layers(json).value(); }

/// Makes a network for samples of 7 features.
nn::sequential network_of(const std::string& json) {
  const std::vector<nn::made_layer> made = nn::make_layers(layers_of(json), 7).value();
  std::vector<std::shared_ptr<const nn::module>> modules;
  for (const nn::made_layer& one : made) modules.push_back(one.what);
  return nn::sequential(std::move(modules));
}

std::string cuts_text(const std::string& json) {
  std::string text;
  for (const layer_cut cut : cuts_of(network_of(json))) text += "-oi"[static_cast<std::size_t>(cut)];
  return text;
}

/// The JSON of a linear layer.
std::string linear(std::size_t out) { return R"({"kind": "linear", "out": )" + std::to_string(out) + "}"; }
const std::string relu = R"({"kind": "relu"})";
const std::string gelu = R"({"kind": "gelu"})";
const std::string norm = R"({"kind": "layer_norm"})";

std::string list(const std::vector<std::string>& layers) {
  std::string text;
  for (const std::string& one : layers) text += (text.empty() ? "[" : ", ") + one;
  return text + "]";
}

TEST(TensorParallel, CutsPairsOfLinearLayers) {
  EXPECT_EQ(cuts_text(list({linear(8), relu, linear(8), gelu, linear(4), relu, linear(2)})), "o-i-o-i");
  EXPECT_EQ(cuts_text(list({linear(8), relu, linear(8), relu, linear(2)})), "o-i--") << "the third has no partner";
  EXPECT_EQ(cuts_text(list({linear(8), linear(8), linear(2)})), "oi-");
  EXPECT_EQ(cuts_text(list({linear(8), norm, linear(8), gelu, relu, linear(2)})), "--o--i");
  EXPECT_EQ(cuts_text(list({linear(8), R"({"kind": "dropout", "rate": 0.5})", linear(2)})), "---");
}

TEST(TensorParallel, RefusesWhatSlicesCannotShare) {
  const nn::sequential layers = network_of(list({linear(6), relu, linear(3)}));
  EXPECT_EQ(check_slices(layers, 1, "--tensor-parallel 1", "--hidden"), std::nullopt);
  EXPECT_EQ(check_slices(layers, 3, "--tensor-parallel 3", "--hidden"), std::nullopt);
  EXPECT_EQ(check_slices(layers, 4, "--tensor-parallel 4", "--hidden"),
            "--tensor-parallel 4: layer 0 (--hidden) has 6 outputs, which 4 slices cannot share equally; use a divisor "
            "of 6, or another width");
  EXPECT_EQ(check_slices(network_of(list({linear(6), norm, linear(3)})), 2, "--tensor-parallel 2", "--layers"),
            "--tensor-parallel 2: the network (--layers) has no two linear layers with only relu or gelu between them, "
            "which slices share; leave it out");
}

// -- the numbers ----------------------------------------------------------------------------

/// Sums over threads.
class thread_sums {
 public:
  explicit thread_sums(std::uint32_t slices) : shares_(slices), meeting_(slices) {}

  class slice final : public nn::slice_sums {
   public:
    slice(thread_sums& of, std::uint32_t which) : of_(of), which_(which) {}
    float* share(std::size_t rows, std::size_t cols) override {
      of_.shares_[which_].assign(rows * cols, 0);
      return of_.shares_[which_].data();
    }
    void sum(float* to) override {
      of_.meeting_.arrive_and_wait();
      for (std::size_t i = 0; i < of_.shares_[0].size(); ++i) {
        to[i] = 0;
        for (const auto& share : of_.shares_) to[i] += share.at(i);
      }
      ++sums;
      of_.meeting_.arrive_and_wait();
    }
    std::size_t sums = 0;

   private:
    thread_sums& of_;
    std::uint32_t which_;
  };

 private:
  std::vector<std::vector<float>> shares_;
  std::barrier<> meeting_;
};

constexpr std::size_t samples = 5;

/// The results of a training pass.
struct pass_result {
  std::vector<float> outputs;
  nn::pass_gradients grad;
};

pass_result pass_of(const network& what, std::vector<float> parameters, const std::vector<float>& input,
                    const std::vector<float>& grad_outputs, nn::slice_sums* slices) {
  nn::passes passes(*what.module, nn::batch_of(samples, what.in), input, 7);
  passes.parameters = std::move(parameters);
  passes.how.slices = slices;
  pass_result made{passes.forward(), {}};
  made.grad = passes.backward(grad_outputs);
  return made;
}

void expect_near(const std::vector<float>& is, const std::vector<float>& expected, const char* what) {
  ASSERT_EQ(is.size(), expected.size()) << what;
  for (std::size_t i = 0; i < is.size(); ++i)
    ASSERT_NEAR(is[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << what << " " << i;
}

/// A part's numbers, taken from the whole network's.
std::vector<float> taken(const part_tensors& part, const std::vector<float>& whole) {
  std::vector<float> mine;
  for (const tensor_place& one : part.parameters)
    for (std::size_t row = 0; row < one.rows; ++row)
      for (std::size_t col = 0; col < one.cols; ++col) mine.push_back(whole[one.first + row * one.stride + col]);
  return mine;
}

job job_of(const std::string& layers, std::uint32_t slices) {
  job what;
  what.layers = layers_of(layers);
  what.tensor_parallel = slices;
  return what;
}

data_spec features(std::size_t count) {
  data_spec spec;
  spec.dense_features = count;
  spec.outputs = 2;
  return spec;
}

struct network_in_slices {
  const char* name;
  std::string layers;
  std::uint32_t slices;
  std::size_t sums;  ///< per training pass
};

void PrintTo(const network_in_slices& one, std::ostream* out) { *out << one.name; }

class Slices : public testing::TestWithParam<network_in_slices> {};

TEST_P(Slices, ComputeWhatTheWholeNetworkDoes) {
  const data_spec spec = features(7);
  const job what = job_of(GetParam().layers, GetParam().slices);
  ASSERT_EQ(check_parts(what, spec), std::nullopt);
  const network whole = as_network(hybrid_model(spec, what));
  const std::vector<float> parameters = nn::initial_numbers(*whole.module, 3).parameters;
  source_of_numbers numbers(5);
  const std::vector<float> input = numbers.numbers(samples * whole.in_features());
  const std::vector<float> grad_outputs = numbers.numbers(samples * whole.out_features());
  const pass_result expected = pass_of(whole, parameters, input, grad_outputs, nullptr);

  const network_parts parts = parts_of_network(what, spec);
  ASSERT_EQ(parts.parts.size(), what.tensor_parallel);
  thread_sums together(what.tensor_parallel);
  std::vector<pass_result> made(what.tensor_parallel);
  std::vector<std::size_t> sums(what.tensor_parallel);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t slice = 0; slice < what.tensor_parallel; ++slice)
      threads.emplace_back([&, slice] {
        thread_sums::slice mine(together, slice);
        made[slice] =
            pass_of(make_stage(what, spec, 0), taken(parts.parts[slice], parameters), input, grad_outputs, &mine);
        sums[slice] = mine.sums;
      });
  }
  std::size_t counted = 0;
  for (std::uint32_t slice = 0; slice < what.tensor_parallel; ++slice) {
    SCOPED_TRACE(slice);
    EXPECT_EQ(made[slice].outputs, made[0].outputs) << "the same bits on each";
    EXPECT_EQ(made[slice].grad.x, made[0].grad.x);
    expect_near(made[slice].outputs, expected.outputs, "output");
    expect_near(made[slice].grad.x, expected.grad.x, "gradient of the input");
    expect_near(made[slice].grad.parameters, taken(parts.parts[slice], expected.grad.parameters), "gradient");
    EXPECT_EQ(sums[slice], GetParam().sums);
    for (const nn::parameter_range& range : counted_once(parts.parts[slice], slice)) counted += range.count;
  }
  EXPECT_EQ(counted, whole.parameter_count()) << "each number once";
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, Slices,
                         testing::Values(network_in_slices{"Pair", list({linear(6), relu, linear(2)}), 2, 2},
                                         network_in_slices{"Three", list({linear(6), gelu, linear(2)}), 3, 2},
                                         network_in_slices{"OneOutputEach", list({linear(4), linear(2)}), 4, 2},
                                         network_in_slices{"Pairs",
                                                           list({linear(6), relu, linear(4), relu, norm, linear(8),
                                                                 gelu, linear(3), relu, linear(2)}),
                                                           2, 4},
                                         network_in_slices{
                                             "NoBias",
                                             list({R"({"kind": "linear", "out": 6, "bias": false})", relu,
                                                   R"({"kind": "linear", "out": 5, "bias": false})", norm, linear(2)}),
                                             2, 2}),
                         [](const auto& one) { return one.param.name; });

// -- with stages ------------------------------------------------------------------------------

TEST(TensorParallel, StagesDoNotPartAPair) {
  const data_spec spec = features(7);
  job what = job_of(list({linear(6), relu, linear(4), relu, linear(4), relu, linear(2)}), 2);
  what.pipeline = 3;
  EXPECT_EQ(check_parts(what, spec), std::nullopt);
  EXPECT_EQ(measured_stages(what, spec), (std::vector<std::size_t>{0, 3, 4})) << "there is no other cut";
  what.pipeline = 4;
  EXPECT_EQ(check_parts(what, spec),
            "--pipeline 4: pairs of layers that slices share (--tensor-parallel 2) stay together, so there can be 3 "
            "stages at most");
  what.pipeline = 2;
  for (const std::size_t begin : {1, 2, 5, 6}) {
    what.stages = {0, begin};
    EXPECT_EQ(check_parts(what, spec),
              "--stages 0," + std::to_string(begin) + ": layer " + std::to_string(begin) +
                  " is amid a pair whose slices need each other (--tensor-parallel 2); stages may begin at 0, 3, 4");
  }
}

}  // namespace
}  // namespace troupe::model::tensor_parallel_test
