// A network in stages, each on its own trainer: a batch passes through them in micro-batches, so that all stages work
// at the same time. With gpipe and 1f1b, the digest is that of the whole network for any number of stages. With
// pipedream whole batches overlap: a stage learns with weights that are some steps old, and never waits.
//
//   pipeline --stages 3 --replicas 2 --schedule gpipe --micro-batches 8 --processes
//   pipeline --stages 3 --schedule pipedream

#include <cstdint>
#include <cstdio>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

using namespace troupe;

constexpr std::size_t samples = 16;  // per batch
constexpr std::size_t side = 8;      // image height and width

struct settings {
  std::uint64_t stages = 2;
  std::uint64_t replicas = 1;
  std::uint64_t micro_batches = 0;
  std::uint64_t steps = 60;
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
};

/// A convolutional network, split into `count` stages.
std::vector<nn::sequential> make_stages(std::size_t count) {
  const nn::sequential network(
      nn::conv2d({.in_channels = 1, .out_channels = 8, .kernel = 3, .padding = 1}), nn::relu(), nn::max_pool2d(2, 2),
      nn::conv2d({.in_channels = 8, .out_channels = 16, .kernel = 3, .padding = 1}), nn::relu(), nn::flatten(),
      nn::linear(16 * side / 2 * side / 2, 32), nn::relu(), nn::linear(32, 4));
  std::vector<nn::sequential> stages;
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t first = network.size() * s / count;
    stages.push_back(network.part(first, network.size() * (s + 1) / count - first));
  }
  return stages;
}

/// Images with a bright square in one of four corners, and the corners' numbers. Depends on step and replica only, so
/// that all stages of a replica get the same batch.
std::pair<tensor, std::vector<std::int64_t>> make_batch(std::uint64_t step, std::uint32_t replica) {
  tensor images({samples, 1, side, side});
  std::vector<std::int64_t> corners(samples);
  std::uint64_t noise = 1 + step * 1000 + replica;
  const auto next = [&noise] { return noise = noise * 6364136223846793005U + 1442695040888963407U, noise >> 33U; };
  const auto numbers = images.as<float>();
  for (std::size_t n = 0; n < samples; ++n) {
    corners[n] = next() % 4;
    for (std::size_t i = 0; i < side * side; ++i) {
      const bool below = i / side >= side / 2;
      const bool right = i % side >= side / 2;
      const bool bright = corners[n] == (below ? 2 : 0) + (right ? 1 : 0);
      numbers[n * side * side + i] = next() % 1000 / 1000.0F + (bright ? 0.5F : 0.0F);
    }
  }
  return {images, corners};
}

task<> train(trainer me, settings chosen) {
  auto model =
      me.pipeline(make_stages(chosen.stages), {.schedule = chosen.schedule, .micro_batches = chosen.micro_batches});
  distributed_optimizer optimizer(adam{.lr = 0.003}, model);
  for (const auto step : me.steps(chosen.steps)) {
    const auto [images, corners] = make_batch(step, model.replica());
    auto context = me.new_context();
    const double loss = co_await model.step(context, images, corners, nn::cross_entropy);
    co_await optimizer.step(context);
    if (me.rank() == 0 && step % 20 == 19) std::printf("step %lu: loss %.6f\n", step + 1, loss);
  }
}

int main(int argc, char** argv) {
  settings chosen;
  std::string schedule = "1f1b";
  cluster cluster(argc, argv,
                  {option("stages", chosen.stages, "into which the network is cut").within(1, 9),
                   option("replicas", chosen.replicas, "of the whole network").within(1, 100),
                   option("steps", chosen.steps, "how many batches each replica learns"),
                   option("micro-batches", chosen.micro_batches, "into which a batch is cut; 0: 4, or with pipedream 1")
                       .within(0, samples),
                   option("schedule", schedule, "of the stages").one_of({"gpipe", "1f1b", "pipedream"})});
  if (schedule == "gpipe") chosen.schedule = pipeline_schedule::gpipe;
  if (schedule == "pipedream") chosen.schedule = pipeline_schedule::pipedream;
  if (chosen.micro_batches == 0) chosen.micro_batches = schedule == "pipedream" ? 1 : 4;
  const std::uint32_t trainers = chosen.stages * chosen.replicas;
  const auto [steps, seconds, digest, stopped] = cluster.run(trainers, train, chosen);
  std::printf("%s after %lu steps\n", digest.c_str(), steps);
}
