// Local SGD: each trainer trains its own model on its own data, and every ten steps all continue from the mean of their
// parameters. They exchange a tenth of what data_parallel would.

#include <cmath>
#include <cstdio>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

/// Points of a plane, and the side of a line on which each lies; every trainer has a different line.
void draw(std::uint32_t rank, int step, tensor& points, std::vector<std::int64_t>& sides) {
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const double angle = 0.7 * i + 0.1 * step + rank;
    const double x = std::cos(angle), y = std::sin(3 * angle);
    points.as<float>()[2 * i] = x;
    points.as<float>()[2 * i + 1] = y;
    sides[i] = x + (rank == 0 ? 0.5 : 1.5) * y > 0 ? 1 : 0;
  }
}

task<> average(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 2), {.synchronized = false});
  distributed_optimizer optimizer(sgd{.lr = 0.5}, model);
  tensor points(shape(16, 2));
  std::vector<std::int64_t> sides(16);
  for (int step = 1; step <= 100; ++step) {
    draw(me.rank(), step, points, sides);
    auto context = me.new_context();
    const auto loss = nn::cross_entropy(context, model(context, points), sides);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    if (step % 10 != 0) continue;
    named_tensors state = model.state_dict();
    for (auto& [name, parameter] : state) parameter = co_await me.group().all_reduce(parameter, reduce_op::mean);
    model.load_state_dict(state);
    if (me.rank() == 0 && step % 50 == 0) {
      std::printf("step %d: loss %.6f\n", step, loss.item());
      for (const auto& [name, parameter] : state) {
        std::printf("%s", name.c_str());
        for (const float number : parameter.as<float>()) std::printf(" %.6f", number);
        std::printf("\n");
      }
    }
  }
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  cluster.run(2, average);
}
