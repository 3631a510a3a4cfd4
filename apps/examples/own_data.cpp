// A custom data set. A sampler distributes the row numbers, in a different order each epoch; idle threads make batches
// of them, as they would read real rows. The rows are points of a spiral with two arms, which the model learns to
// distinguish.

#include <cmath>
#include <cstdio>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

struct spiral {
  static constexpr std::uint64_t rows = 600;
  static constexpr std::uint64_t test_rows = 200;

  /// The points of these rows, and their arms.
  struct batch {
    tensor points;
    std::vector<std::int64_t> arms;
  };
  static batch read(const std::vector<std::int64_t>& numbers, double shift = 0) {
    batch made{tensor({numbers.size(), 2}), {}};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto arm = numbers[i] % 2;
      const double radius = (numbers[i] + shift) / rows;
      const double angle = 6 * radius + 3.14159265358979 * arm;
      made.points.as<float>()[2 * i] = radius * std::cos(angle);
      made.points.as<float>()[2 * i + 1] = radius * std::sin(angle);
      made.arms.push_back(arm);
    }
    return made;
  }
};

/// The share of points between the rows that the model assigns to the right arm: every trainer checks some, then they
/// sum their counts.
task<double> accuracy(trainer me, const data_parallel& model) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = me.rank(); i < std::int64_t{spiral::test_rows}; i += me.trainers()) rows.push_back(3 * i);
  const auto [points, arms] = spiral::read(rows, 0.5);
  auto context = me.no_grad();
  const tensor outputs = model(context, points);
  const auto scores = outputs.as<float>();
  tensor right({1}, dtype::f64);
  right.as<double>()[0] = 0;
  for (std::size_t i = 0; i < arms.size(); ++i)
    right.as<double>()[0] += (scores[2 * i + 1] > scores[2 * i]) == (arms[i] == 1);
  const tensor of_all = co_await me.group().all_reduce(right);
  co_return of_all.item() / spiral::test_rows;
}

task<> train(trainer me) {
  auto model = me.data_parallel(
      nn::sequential(nn::linear(2, 32), nn::relu(), nn::linear(32, 32), nn::relu(), nn::linear(32, 2)));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  const distributed_sampler sampler(me, spiral::rows, 32);
  const double before = co_await accuracy(me, model);
  for (const auto epoch : me.steps(60))
    for (const auto& [points, arms] : me.prefetch(
             sampler.steps_per_epoch(), [&](std::uint64_t step) { return spiral::read(sampler.rows(epoch, step)); })) {
      auto context = me.new_context();
      if (!arms.empty())  // else this trainer has no more rows in this epoch
        co_await context.backward(nn::cross_entropy(context, model(context, points), arms));
      co_await optimizer.step(context);
    }
  const double after = co_await accuracy(me, model);
  if (me.rank() == 0) std::printf("right: %.3f before, %.3f after\n", before, after);
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  const auto [steps, seconds, digest, stopped] = cluster.run(3, train);
  std::printf("%s after %lu steps\n", digest.c_str(), steps);
}
