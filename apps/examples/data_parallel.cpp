// A network without a server: two trainers, each with its own data, one with less than the other. A batch has two
// parts, whose gradients are summed and exchanged once.

#include <cstdio>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

constexpr int parts = 2;    // per batch
constexpr int samples = 4;  // per part
constexpr int epochs = 20;

struct data {
  tensor x = tensor({samples, 2});
  tensor y = tensor({samples, 1});
};

/// Inputs are two numbers between 0 and 1; the target is their product.
data make_part(std::uint32_t rank, int number) {
  data made;
  for (int i = 0; i < samples; ++i) {
    const int n = (number * samples + i) * 2 + rank;
    const float a = n * 7 % 19 / 19.0F;
    const float b = n * 11 % 23 / 23.0F;
    made.x.as<float>()[2 * i] = a;
    made.x.as<float>()[2 * i + 1] = b;
    made.y.as<float>()[i] = a * b;
  }
  return made;
}

/// The mean loss of 16 parts that are not used for training.
double evaluate(trainer me, const data_parallel& model) {
  double sum = 0;
  for (int part = 0; part < 16; ++part) {
    auto context = me.no_grad();
    const data test = make_part(0, 1000 + part);
    sum += nn::mse_loss(context, model(context, test.x), test.y).item();
  }
  return sum / 16;
}

task<> train(trainer me) {
  auto model = me.data_parallel(nn::sequential(nn::linear(2, 8), nn::relu(), nn::linear(8, 1)));
  distributed_optimizer optimizer(sgd{.lr = 0.1, .momentum = 0.9}, model);
  const double before = evaluate(me, model);
  const int batches = me.rank() == 0 ? 12 : 9;
  for (const auto step : me.steps(12 * epochs)) {
    const int batch = step % 12;
    auto context = me.new_context();
    for (int part = 0; part < parts && batch < batches; ++part) {
      const data now = make_part(me.rank(), batch * parts + part);
      co_await context.backward(nn::mse_loss(context, model(context, now.x), now.y), 1.0 / parts);
    }
    co_await optimizer.step(context);  // a trainer without data does not count in the mean
  }
  if (me.rank() == 0) std::printf("loss %.6f before, %.6f after\n", before, evaluate(me, model));
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  const auto [steps, seconds, digest, stopped] = cluster.run(2, train);
  std::printf("%s after %lu steps\n", digest.c_str(), steps);
}
