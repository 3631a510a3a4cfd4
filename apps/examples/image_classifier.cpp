// A small convolutional network: two trainers learn to distinguish stripes of three directions in noisy images. Both
// use trainer 0's running statistics of batch normalisation; the evaluation uses them.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

constexpr int side = 12;
constexpr int samples = 32;  // per batch

struct images {
  tensor x = tensor({samples, 1, side, side});
  std::vector<std::int64_t> classes = {};
};

/// Horizontal, vertical or diagonal stripes with random offset and width, and noise of about the same amplitude.
images make_images(std::uint64_t number) {
  images made;
  std::uint64_t state = number * 2654435761 + 1;
  const auto draw = [&state] {  // between 0 and 1
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 40) / 16777216.0F;
  };
  for (int n = 0; n < samples; ++n) {
    const int direction = std::min(3 * draw(), 2.0F);
    made.classes.push_back(direction);
    const float phase = 6.28F * draw();
    const float per_pixel = 1 + draw();
    for (int i = 0; i < side * side; ++i) {
      const float row = direction == 1 ? 0 : i / side;
      const float column = direction == 0 ? 0 : i % side;
      made.x.as<float>()[n * side * side + i] = std::sin(phase + per_pixel * (row + column)) + 3 * (draw() - 0.5F);
    }
  }
  return made;
}

/// The share of correctly classified images in 20 batches that are not used for training.
double accuracy_of(trainer me, const data_parallel& model) {
  int right = 0;
  for (std::uint64_t number = 0; number < 20; ++number) {
    const images test = make_images(1000000 + number);
    auto context = me.no_grad();
    const tensor scores = model(context, test.x);
    for (int n = 0; n < samples; ++n) {
      const auto of_image = scores.as<float>().subspan(n * 3, 3);
      right += std::ranges::max_element(of_image) - of_image.begin() == test.classes[n] ? 1 : 0;
    }
  }
  return right / (20.0 * samples);
}

task<> train(trainer me) {
  auto model = me.data_parallel(nn::sequential(
      nn::conv2d({.in_channels = 1, .out_channels = 8, .kernel = 3, .padding = 1, .bias = false}),
      nn::batch_norm({.channels = 8, .synchronized = true}), nn::relu(), nn::max_pool2d(2),
      nn::conv2d({.in_channels = 8, .out_channels = 16, .kernel = 3, .padding = 1, .bias = false}),
      nn::batch_norm({.channels = 16, .synchronized = true}), nn::relu(), nn::global_avg_pool2d(), nn::linear(16, 3)));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  const double before = accuracy_of(me, model);
  for (const auto step : me.steps(100)) {
    const images now = make_images(step * me.trainers() + me.rank());
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, model(context, now.x), now.classes));
    co_await optimizer.step(context);
  }
  if (me.rank() == 0) std::printf("right: %.4f before, %.4f after\n", before, accuracy_of(me, model));
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  const auto [steps, seconds, digest, stopped] = cluster.run(2, train);
  std::printf("%s after %lu steps\n", digest.c_str(), steps);
}
