// Clients beside the trainers: they query servers during training, and end with it.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "troupe/troupe.hpp"

namespace troupe::client_test {
namespace {

constexpr nn::embedding_bag::options table{.num_embeddings = 10, .embedding_dim = 2, .mode = nn::pooling::sum};
const std::vector<std::int64_t> indices = {3, 1, 4};
const std::vector<std::int64_t> offsets = {0, 2};

/// Looks up bags {3, 1} and {4}, in a context and outside of one.
task<> train(trainer me, remote_module<nn::embedding_bag> embedding, std::vector<float>* last) {
  auto model = me.data_parallel(nn::linear(2, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, embedding, model);
  const std::vector<std::int64_t> classes = {0, 1};
  for (int step = 0; step < 20; ++step) {
    auto context = me.new_context();
    auto rows = co_await embedding.forward(context, indices, offsets);
    co_await context.backward(nn::cross_entropy(context, model(context, rows), classes));
    co_await optimizer.step(context);
  }
  auto context = me.new_context();
  const auto rows = co_await embedding.forward(context, indices, offsets);
  last->assign(rows.as<float>().begin(), rows.as<float>().end());
}

task<> serve(client me, remote_module<nn::embedding_bag> embedding, std::vector<float>* last) {
  for (bool is_last = false; !is_last;) {
    is_last = me.run_is_over();
    const tensor rows = co_await embedding.rows(indices, offsets);
    EXPECT_EQ(rows.shape(), shape(2, 2));
    last->assign(rows.as<float>().begin(), rows.as<float>().end());
  }
}

TEST(Clients, LookRowsUpAsOfTheNewestStep) {
  test::made_cluster cluster;
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(table);
  std::vector<float> trained;
  std::vector<float> served[2];
  for (std::vector<float>& one : served) cluster.client(serve, embedding, &one);
  cluster.run(1, train, embedding, &trained);
  EXPECT_EQ(trained.size(), 4U);
  for (const std::vector<float>& one : served) EXPECT_EQ(one, trained);
}

task<> fail(client, remote_module<nn::embedding_bag> embedding) {
  const std::vector<std::int64_t> wrong = {10};
  const std::vector<std::int64_t> one = {0};
  co_await embedding.rows(wrong, one);
}

TEST(Clients, EndTheRunWithTheirError) {
  test::made_cluster cluster;
  const auto embedding = cluster.server(0).make<nn::embedding_bag>(table);
  std::vector<float> trained;
  cluster.client(fail, embedding);
  const auto wait = [](trainer /*me*/) -> task<> {
    promise<> never;
    co_await never.get_future();
  };
  const std::string told = test::error_of([&] { cluster.run(1, wait); });
  EXPECT_FINDS(told, "client 0: ");
  EXPECT_FINDS(told, "embedding_bag.rows of table 0 on server 0: indices: index 10");
}

}  // namespace
}  // namespace troupe::client_test
