// A job on images whose network is given by layers, and the same network in a program.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "model/random.hpp"
#include "nn/layer_spec.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/model/made_images.hpp"
#include "troupe/troupe.hpp"

namespace troupe::test {

/// Returns a job's initial parameters and buffers, by name, for images of one channel.
inline named_tensors initial_state_of_job(const std::string& layers, std::size_t height, std::size_t width,
                                          std::uint64_t seed) {
  std::vector<std::shared_ptr<const nn::module>> modules;
  const auto made = nn::make_layers(nn::parse_layers(layers).value(), {1, height, width}).value();
  for (const auto& one : made) modules.push_back(one.what);
  const nn::sequential network(std::move(modules));
  nn::flat_numbers numbers = nn::initial_numbers(network, 0);
  network.initialize(
      [=](std::size_t layer) { return model::random_key(seed, model::random_stream::dense_weights, layer); },
      numbers.parameters.data(), numbers.buffers.data());
  named_tensors state;
  const auto add = [&](const std::vector<nn::parameter>& tensors, std::span<const float> flat) {
    for (const auto& one : nn::placed(tensors))
      state.emplace_back(one.name, tensor::of<float>(one.shape, flat.subspan(one.first, one.count())));
  };
  add(network.parameters(), numbers.parameters);
  add(network.buffers(), numbers.buffers);
  return state;
}

/// The same layers as a job names them and as a program makes them.
struct layers_of_images {
  const char* of_job;
  nn::sequential (*of_program)();
  std::uint32_t height, width;
};

inline task<> train_as_job(trainer me, const layers_of_images* layers, const std::string* files) {
  auto model = me.data_parallel(layers->of_program());
  model.load_state_dict(initial_state_of_job(layers->of_job, layers->height, layers->width, me.seed()));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  const data_set data(me, {{"data", "idx:" + *files}, {"batch-size", "8"}});
  for (const auto epoch : me.steps(3))
    for (const data_batch& batch : me.batches(data.epoch(epoch))) {
      auto context = me.new_context();
      if (batch.size > 0) {
        const tensor x = reshape(context, batch.dense, {batch.size, 1, layers->height, layers->width});
        co_await context.backward(nn::cross_entropy(context, model(context, x), batch.classes));
      }
      co_await optimizer.step(context);
    }
}

/// Expects that job and program train the same weights on `rows` images.
inline void expect_digest_of_job(const layers_of_images& layers, std::uint32_t trainers, std::uint32_t rows) {
  const model::pair_of_files files(model::images_text(rows, layers.height, layers.width), model::labels_text(rows));
  const std::string names = files.names();
  const auto job = model::parse_job({{"data", "idx:" + names},
                                     {"layers", layers.of_job},
                                     {"trainers", std::to_string(trainers)},
                                     {"batch-size", "8"},
                                     {"epochs", "3"},
                                     {"dense-optimizer", "adam"},
                                     {"dense-lr", "0.01"},
                                     {"seed", "5"}});
  ASSERT_TRUE(job) << job.error().message;
  const auto expected = nodes::run_job(*job, {}, nullptr);
  ASSERT_TRUE(expected) << expected.error().message;
  const run_summary found = run_with({"--quiet", "--seed", "5"}, trainers, train_as_job, &layers, &names);
  EXPECT_EQ(found.steps, expected->steps);
  EXPECT_EQ(found.weights_digest, expected->weights_digest);
}

}  // namespace troupe::test
