// A custom layer in a network: checked against differences of its forward pass, then trained.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <troupe/troupe.hpp>

using namespace troupe;

/// y = x * sigmoid(beta * x), with a trained beta for each feature.
class swish final : public nn::module {
 public:
  explicit swish(std::size_t features) : features_(features) {}

  std::string type() const override { return "swish"; }
  std::vector<nn::parameter> parameters() const override { return {{"beta", {features_}}}; }
  void initialize(std::uint64_t, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>&) const override {
    std::ranges::fill(parameters[0], 1.0F);
  }
  troupe::shape output(const tensor_view& input) const override {
    nn::check_features(*this, input, features_);
    return input.shape();
  }
  void forward(const nn::pass&, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i] * gate(numbers, i);
  }
  void backward(const nn::pass&, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto x = numbers.input.as<float>();
    if (of.parameters) std::ranges::fill(of.parameters[0], 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float s = gate(numbers, i);
      const float slope = x[i] * s * (1 - s);  // derivative of the output by beta * x
      if (of.input) of.input[i] = of.output[i] * (s + slope * numbers.parameters[0][i % features_]);
      if (of.parameters) of.parameters[0][i % features_] += of.output[i] * slope * x[i];
    }
  }

 private:
  float gate(const nn::pass_numbers& numbers, std::size_t i) const {
    return 1 / (1 + std::exp(-numbers.parameters[0][i % features_] * numbers.input.as<float>()[i]));
  }

  std::size_t features_;
};

/// `count` numbers between -1 and 1, as a column.
tensor make_column(int count, int first) {
  tensor column({count, 1});
  for (int i = 0; i < count; ++i) column.as<float>()[i] = (first + i) * 13 % 32 / 16.0F - 1;
  return column;
}

task<> train(trainer me) {
  auto model = me.data_parallel(nn::sequential(nn::linear(1, 16), swish(16), nn::linear(16, 1)));
  distributed_optimizer optimizer(sgd{.lr = 0.1, .momentum = 0.9}, model);
  for (const auto step : me.steps(200)) {
    const tensor x = make_column(8, step * 16 + me.rank() * 8);
    tensor y({8, 1});
    for (int i = 0; i < 8; ++i) y.as<float>()[i] = std::sin(3 * x.as<float>()[i]);
    auto context = me.new_context();
    const tensor loss = nn::mse_loss(context, model(context, x), y);
    if (me.rank() == 0 && step % 50 == 49) std::printf("step %lu: loss %.6f\n", step + 1, loss.item());
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  nn::check_gradient(swish(1), make_column(8, 0));
  const auto [steps, seconds, digest, stopped] = cluster.run(2, train);
  std::printf("%s after %lu steps\n", digest.c_str(), steps);
}
