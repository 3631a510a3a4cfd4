// Serves rows while they are trained: a client beside the trainers looks up rows of an embedding, as of the newest
// optimizer step, until training ends.

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

struct served {
  int lookups = 0;
  int versions = 0;  ///< how often a row differed from the previous lookup
  float last = 0;
};

task<> serve(client me, remote_module<nn::embedding_bag> embedding, served* result) {
  const std::vector<std::int64_t> indices = {3, 1, 4};  // one bag, the sum of three rows
  const std::vector<std::int64_t> offsets = {0};
  for (bool is_last = false; !is_last;) {
    is_last = me.run_is_over();
    const tensor rows = co_await embedding.rows(indices, offsets);
    ++result->lookups;
    if (rows.as<float>()[0] != result->last) ++result->versions;
    result->last = rows.as<float>()[0];
  }
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  auto embedding =
      cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum});
  served result;
  cluster.client(serve, embedding, &result);
  const auto run = cluster.run(2, train, embedding);
  std::printf("%s after %lu steps, the rows that were served last begin with %.4f\n", run.weights_digest.c_str(),
              run.steps, result.last);
  std::fprintf(stderr, "%d lookups, %d of them with other rows than before\n", result.lookups, result.versions);
}
