// Steps of two trainers. `ddp`: an MLP (256-512-512-10, cross-entropy, SGD) with a batch of 32 each; `no_sync`: the
// batch in four parts, whose gradients are exchanged once. Counterpart of bench/pytorch/training.py. `hybrid`: the
// tutorial's job, as in apps/examples/hybrid.cpp, for 200 epochs after the first 5; counterpart of
// bench/torch_hybrid.py.

#include <string>
#include <vector>

#include "bench/pairs/timing.hpp"
#include "troupe/troupe.hpp"

namespace troupe::pairs {
namespace {

constexpr std::size_t batch = 32;
constexpr std::size_t features = 256;

task<> train_network(trainer me, std::size_t parts) {
  auto model = me.data_parallel(
      nn::sequential(nn::linear(features, 512), nn::relu(), nn::linear(512, 512), nn::relu(), nn::linear(512, 10)));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  const std::size_t size = batch / parts;
  std::vector<tensor> x;
  std::vector<std::int64_t> y(size);
  for (std::size_t i = 0; i < size; ++i) y[i] = static_cast<std::int64_t>(i % 10);
  for (std::size_t part = 0; part < parts; ++part) {
    x.emplace_back(shape(size, features));
    for (std::size_t i = 0; i < x.back().count(); ++i)
      x.back().as<float>()[i] = static_cast<float>((i * 7 + part + me.rank()) % 17) / 8 - 1;
  }
  stopwatch watch(600);
  for (int i = -60; i < 600; ++i) {
    watch.at(i);
    auto context = me.new_context();
    for (const tensor& one : x) {
      const auto loss = nn::cross_entropy(context, model(context, one), y);
      co_await context.backward(loss, 1.0 / static_cast<double>(parts));
    }
    co_await optimizer.step(context);
  }
  if (me.rank() == 0) report(parts == 1 ? "ddp" : "no_sync", watch.each());
}

task<> train_hybrid(trainer me, remote_module<nn::embedding_bag> embedding) {
  constexpr int epochs = 200;
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, embedding, model);
  stopwatch watch(epochs);
  for (int epoch = -5; epoch < epochs; ++epoch) {
    watch.at(epoch);
    for (const auto& [indices, offsets, target] :
         tutorial_batches(me.seed(), me.rank(), static_cast<std::uint64_t>(epoch + 5))) {
      auto context = me.new_context();
      auto rows = co_await embedding.forward(context, indices, offsets);
      auto loss = nn::cross_entropy(context, model(context, rows), target);
      co_await context.backward(loss);
      co_await optimizer.step(context);
    }
  }
  if (me.rank() == 0) report("hybrid", watch.each() / 10);
}

void measure(int argc, char** argv) {
  std::string what = "ddp";
  cluster cluster(argc, argv, {option("what", what, "ddp, no_sync or hybrid")});
  if (what == "hybrid")
    cluster.run(2, train_hybrid,
                cluster.server(0).make<nn::embedding_bag>(
                    {.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum}));
  else
    cluster.run(2, train_network, what == "no_sync" ? std::size_t{4} : std::size_t{1});
}

}  // namespace
}  // namespace troupe::pairs

int main(int argc, char** argv) { troupe::pairs::measure(argc, argv); }
