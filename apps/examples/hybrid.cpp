// PyTorch's tutorial "Combining Distributed DataParallel with Distributed RPC Framework": a table of rows on a
// parameter server, and two trainers with a linear layer each, kept equal by all-reduce.

#include <cstdio>
#include <troupe/troupe.hpp>

using namespace troupe;

task<> train(trainer me, remote_module<nn::embedding_bag> embedding) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, embedding, model);
  for (const auto epoch : me.steps(100))
    for (const auto& [indices, offsets, target] : me.batches(tutorial_batches(me.seed(), me.rank(), epoch))) {
      auto context = me.new_context();
      auto rows = co_await embedding.forward(context, indices, offsets);
      auto loss = nn::cross_entropy(context, model(context, rows), target);
      co_await context.backward(loss);
      co_await optimizer.step(context);
    }
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  auto embedding =
      cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum});
  const auto [steps, seconds, digest, stopped] = cluster.run(2, train, embedding);
  std::printf("%s after %lu steps, %.3f s\n", digest.c_str(), steps, seconds);
}
