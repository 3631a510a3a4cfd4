// An LSTM as a module: PyTorch's numbers, its backward pass, and the state that it carries between parts of a sequence.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/needs_device.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::lstm_test {
namespace {

using test::input_error_of;

using floats = std::vector<float>;

/// Multiples of 1/8 around 0: (i factor mod divisor) - shift eighths.
tensor eighths(const shape& lengths, int factor, int divisor, int shift) {
  tensor made(lengths);
  int i = 0;
  for (float& one : made.as<float>()) one = static_cast<float>(i++ * factor % divisor - shift) / 8;
  return made;
}

tensor some_input(const shape& lengths) { return eighths(lengths, 5, 13, 6); }

/// All parameters of an LSTM, as multiples of 1/8, one tensor after the other.
named_tensors some_state(std::size_t features, std::size_t hidden) {
  named_tensors all;
  const nn::lstm of({.features = features, .hidden = hidden});
  const tensor flat = eighths({count_of(of.parameters())}, 7, 11, 5);
  auto rest = flat.as<float>();
  for (const nn::parameter& one : of.parameters()) {
    all.emplace_back(one.name, tensor::of<float>(one.shape, rest.first(one.shape.count())));
    rest = rest.subspan(one.shape.count());
  }
  return all;
}

void expect_near(const tensor& found, const std::vector<double>& expected, double tolerance = 2e-6) {
  ASSERT_EQ(found.count(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.as<float>()[i], expected[i], tolerance) << i;
}

/// Steps [first, first + steps) of all samples of x [n, all, width].
tensor part_of(const tensor& x, std::size_t first, std::size_t steps) {
  const std::size_t n = x.shape()[0];
  const std::size_t all = x.shape()[1];
  const std::size_t width = x.shape()[2];
  tensor part({n, steps, width});
  for (std::size_t b = 0; b < n; ++b)
    std::ranges::copy(x.as<float>().subspan((b * all + first) * width, steps * width),
                      part.as<float>().begin() + static_cast<std::ptrdiff_t>(b * steps * width));
  return part;
}

// -- literals of torch.nn.LSTM in float64 -------------------------------------------------------

const std::vector<double> outputs = {-0.1995614, 0.0681014, -0.2463983, 0.0923218, -0.2229267, 0.0489174,
                                     -0.2408631, 0.0422271, -0.1581362, 0.1319169, -0.2316294, 0.2003344,
                                     -0.2572410, 0.2347547, -0.2965036, 0.1556144};
const std::vector<double> last_outputs = {-0.2408631, 0.0422271, -0.2965036, 0.1556144};
const std::vector<double> last_cells = {-1.3362462, 0.1041229, -0.8398171, 0.2607698};

task<> apply(trainer me) {
  const auto all = me.data_parallel(nn::lstm({.features = 3, .hidden = 2}));
  const auto last = me.data_parallel(nn::lstm({.features = 3, .hidden = 2, .last = true}));
  const auto of_rows = me.data_parallel(nn::lstm({.features = 3, .hidden = 2, .steps = 4}));
  for (const auto& one : {all, last, of_rows}) one.load_state_dict(some_state(3, 2));
  std::vector<double> last_state = last_outputs;
  last_state.insert(last_state.end(), last_cells.begin(), last_cells.end());
  for (const bool training : {true, false}) {
    auto context = training ? me.new_context() : me.no_grad();
    expect_near(all(context, some_input({2, 4, 3})), outputs);
    expect_near(all(context, some_input({2, 1, 4, 3})), outputs);
    expect_near(of_rows(context, some_input({2, 12})), outputs);
    const tensor output = last(context, some_input({2, 4, 3}));
    EXPECT_EQ(output.shape(), shape(2, 2));
    expect_near(output, last_outputs);
    const auto [y, state] = all(context, some_input({2, 4, 3}), tensor());
    EXPECT_EQ(y.shape(), shape(2, 4, 2));
    expect_near(y, outputs);
    EXPECT_EQ(state.shape(), shape(2, 2, 2));
    expect_near(state, last_state);
    const auto [again, same] = last(context, some_input({2, 4, 3}), tensor());
    expect_near(again, last_outputs);
    expect_near(same, last_state);
  }
  co_return;
}

TEST(Lstm, ComputesAsPyTorch) { test::run(1, apply); }

/// The example of truncated backpropagation: 3 parts of 2 steps each, the state detached between them.
task<> train_in_parts(trainer me, named_tensors* result) {
  auto model = me.data_parallel(nn::lstm({.features = 3, .hidden = 2}));
  model.load_state_dict(some_state(3, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  const tensor x = some_input({2, 6, 3});
  const tensor wanted = eighths({2, 6, 2}, 3, 7, 3);
  const std::vector<double> losses = {0.065678614, 0.166935225, 0.090597271};
  tensor state;
  for (const auto part : me.steps(3)) {
    auto context = me.new_context();
    auto [y, next] = model(context, part_of(x, 2 * part, 2), state);
    const tensor loss = nn::mse_loss(context, y, part_of(wanted, 2 * part, 2));
    EXPECT_NEAR(loss.item(), losses[part], 1e-6);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    state = next;
  }
  *result = model.state_dict();
  result->emplace_back("state", state);
}

void expect_trained(const named_tensors& found) {
  const std::vector<std::pair<std::string, std::vector<double>>> expected = {
      {"weight_ih_l0", {-0.6223118, 0.2481350, -0.2480309, 0.6286461,  0.1209311, -0.3771336, 0.5002967,  -0.0001380,
                        -0.4990506, 0.3765223, -0.1271432, -0.6236975, 0.2459005, -0.2493425, 0.6269675,  0.1334062,
                        -0.3935928, 0.5127348, 0.0000764,  -0.5068013, 0.3938230, -0.1219283, -0.6300459, 0.2507017}},
      {"weight_hh_l0",
       {-0.2471566, 0.6241963, 0.1244973, -0.3750741, 0.5027858, -0.0007654, -0.4993053, 0.3746670, -0.1278292,
        -0.6243025, 0.2557645, -0.2521488, 0.6438428, 0.1196913, -0.3744563, 0.4996635}},
      {"bias_ih_l0", {-0.0103874, -0.5007659, 0.3634645, -0.1284124, -0.6158520, 0.2225929, -0.3236438, 0.6213190}},
      {"bias_hh_l0", {0.1146126, -0.3757659, 0.4884645, -0.0034124, -0.4908520, 0.3475929, -0.1986438, -0.6286810}},
      {"state", {-0.3451688, 0.2044365, -0.3812175, 0.1511588, -1.2314766, 0.3428230, -1.3835615, 0.2544472}},
  };
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(expected[i].first);
    EXPECT_EQ(found[i].first, expected[i].first);
    expect_near(found[i].second, expected[i].second, 5e-6);
  }
}

TEST(Lstm, TrainsThroughPartsOfASequenceAsPyTorch) {
  named_tensors found;
  test::run(1, train_in_parts, &found);
  expect_trained(found);
}

class LstmGpu : public needs_device {};

TEST_F(LstmGpu, TrainsThroughPartsOfASequenceAsPyTorch) {
  named_tensors found;
  test::run_with(test::arguments({"--device", "cuda", "--devices", "0"}), 1, train_in_parts, &found);
  expect_trained(found);
}

// -- a module's own state -------------------------------------------------------------------------

/// y = x + state; y becomes the state.
class running_sum final : public nn::module {
 public:
  std::string type() const override { return "running_sum"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  troupe::shape state(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      numbers.output[i] = x[i] + (numbers.state ? numbers.state[i] : 0);
      if (numbers.next_state) numbers.next_state[i] = numbers.output[i];
    }
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/, const nn::gradients& of) const override {
    if (of.input) std::ranges::copy(of.output, of.input.begin());
  }
};

task<> add_up(trainer me) {
  const auto sum = me.data_parallel(running_sum());
  const tensor x = tensor::of<float>({3}, std::vector<float>{1, 2, 4});
  tensor state;
  for (const float times : {1.0F, 2.0F, 3.0F}) {
    auto context = me.no_grad();
    const auto [y, next] = sum(context, x, state);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(y.as<float>()[i], times * x.as<float>()[i]);
    state = next;
  }
  auto context = me.no_grad();
  const tensor alone = sum(context, x);
  EXPECT_TRUE(std::ranges::equal(alone.as<float>(), x.as<float>()));
  co_return;
}

TEST(CarriedStates, GoThroughModulesOfOnesOwn) { test::run(1, add_up); }

// -- backward passes --------------------------------------------------------------------------

std::string wrong_with(const nn::module& of, const shape& input) {
  return input_error_of([&] { nn::check_gradient(of, some_input(input)); });
}

TEST(Lstm, GoesBackAsItGoesForward) {
  EXPECT_EQ(wrong_with(nn::lstm({.features = 3, .hidden = 4}), {2, 5, 3}), "no error");
  EXPECT_EQ(wrong_with(nn::lstm({.features = 2, .hidden = 3, .last = true}), {3, 4, 2}), "no error");
  EXPECT_EQ(wrong_with(nn::lstm({.features = 1, .hidden = 1}), {1, 1, 1}), "no error");
  EXPECT_EQ(wrong_with(nn::lstm({.features = 2, .hidden = 3, .steps = 3}), {2, 6}), "no error");
  EXPECT_EQ(
      wrong_with(nn::sequential(nn::lstm({.features = 3, .hidden = 4}), nn::gelu(),
                                nn::residual(nn::lstm({.features = 4, .hidden = 4})), nn::flatten(), nn::linear(12, 2)),
                 {2, 3, 3}),
      "no error");
}

// -- errors -------------------------------------------------------------------------------------

TEST(Lstm, RefusesWhatItCannotTake) {
  EXPECT_EQ(input_error_of([] { nn::lstm({.features = 3}); }),
            "lstm: hidden 0: must be a whole number between 1 and 65536");
  EXPECT_EQ(input_error_of([] { nn::lstm({.hidden = 3}); }),
            "lstm: features 0: must be a whole number between 1 and 2147483647");
  EXPECT_EQ(input_error_of([] { nn::lstm({.features = 3, .hidden = 3, .steps = 65537}); }),
            "lstm: steps 65537: must be a whole number between 1 and 65536");
  const nn::lstm of_any({.features = 3, .hidden = 2});
  EXPECT_EQ(input_error_of([&] {
              of_any.output(some_input({2, 6}));
            }),
            "lstm: takes sequences of steps x features, which an image of 1 channel is too, and its input has 6 "
            "features; say how many steps they are (steps)");
  EXPECT_EQ(input_error_of([&] {
              of_any.output(some_input({2, 5, 4}));
            }),
            "lstm: is made for steps of 3 features, and its input is a sequence of 5 x 4");
  const nn::lstm of_two({.features = 3, .hidden = 2, .steps = 2});
  EXPECT_EQ(input_error_of([&] {
              of_two.output(some_input({2, 5, 3}));
            }),
            "lstm: takes sequences of 2 steps, and its input is a sequence of 5 x 3; take another number of steps");
}

task<> carry_wrongly(trainer me) {
  const auto lstm = me.data_parallel(nn::lstm({.features = 3, .hidden = 2}));
  const auto stateless = me.data_parallel(nn::sequential(nn::linear(3, 2)));
  auto context = me.new_context();
  const tensor x = some_input({4, 5, 3});
  EXPECT_EQ(input_error_of([&] {
              lstm(context, x, tensor({2, 4, 3}));
            }),
            "lstm: a state [2, 4, 3] of float32; for such an input it is [2, 4, 2] of float32, or empty for zeros");
  EXPECT_EQ(input_error_of([&] {
              lstm(context, x, tensor({2, 4, 2}, dtype::f64));
            }),
            "lstm: a state [2, 4, 2] of float64; for such an input it is [2, 4, 2] of float32, or empty for zeros");
  EXPECT_EQ(input_error_of([&] {
              stateless(context, some_input({4, 3}), tensor());
            }),
            "sequential: carries no state; apply it to the input alone");
  const tensor made = reshape(context, lstm(context, some_input({4, 2, 3})), {2, 4, 2});
  EXPECT_EQ(input_error_of([&] { lstm(context, x, made); }),
            "lstm: a state [2, 4, 2] that the context has computed, and no gradient goes back into a state; copy its "
            "numbers into a tensor of their own");
  co_return;
}

TEST(Lstm, RefusesAStateThatIsNone) { test::run(1, carry_wrongly); }

}  // namespace
}  // namespace troupe::lstm_test
