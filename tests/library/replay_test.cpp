// A recorded run of a user's program, replayed.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "trace/record/recording.hpp"
#include "troupe/troupe.hpp"

namespace troupe::library_replay_test {
namespace {

using test::arguments;

task<> train(trainer me, remote_module<nn::embedding_bag> embedding, double lr) {
  auto model = me.data_parallel(nn::linear(16, 8), {.name = "tower"});
  distributed_optimizer optimizer(sgd{.lr = lr}, embedding, model);
  for (const auto& [indices, offsets, target] : tutorial_batches(me.seed(), me.rank(), 0)) {
    auto context = me.new_context();
    auto rows = co_await embedding.forward(context, indices, offsets);
    auto loss = nn::cross_entropy(context, model(context, rows), target);
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
}

struct outcome {
  std::string digest;
  double lr = 0;
};

/// The program has an option --lr; `factor` is the change in an edited program.
outcome run(std::vector<std::string> text, double factor = 1) {
  arguments given(std::move(text));
  double lr = 0.05;
  cluster cluster(given.count(), given.values(), {option("lr", lr, "the learning rate")});
  const auto embedding =
      cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum});
  return {cluster.run(2, train, embedding, lr * factor).weights_digest, lr};
}

TEST(LibraryReplay, HasTheRecordedOptionsAndBits) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const outcome recorded = run({"--trace", "full", "--trace-dir", there, "--lr", "0.5", "--seed", "3", "--quiet"});
  EXPECT_EQ(recorded.lr, 0.5);
  const outcome again = run({"--replay", there, "--quiet"});
  EXPECT_EQ(again.digest, recorded.digest);
  EXPECT_EQ(again.lr, 0.5);
}

task<> train_and_sum(trainer me, remote_module<nn::embedding_bag> embedding) {
  co_await train(me, embedding, 0.05);
  tensor one(shape(1));
  one.as<float>()[0] = 1;
  const tensor sum = co_await me.group().all_reduce(one);
  if (sum.item() != 2) throw std::runtime_error("it is no sum");
}

TEST(LibraryReplay, WithCollectivesHasTheRecordedBits) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const auto again = [](std::vector<std::string> text) {
    test::made_cluster cluster(std::move(text));
    const auto embedding = cluster.server(0).make<nn::embedding_bag>(
        {.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum});
    return cluster.run(2, train_and_sum, embedding).weights_digest;
  };
  const std::string digest = again({"--trace", "full", "--trace-dir", there, "--quiet"});
  EXPECT_EQ(again({"--replay", there, "--quiet"}), digest);
}

task<> look_on(client me, remote_module<nn::embedding_bag> embedding, int further) {
  const std::vector<std::int64_t> indices = {1, 2};
  const std::vector<std::int64_t> offsets = {0};
  while (!me.run_is_over()) co_await embedding.rows(indices, offsets);
  for (int i = 0; i < further; ++i) co_await embedding.rows(indices, offsets);
}

TEST(LibraryReplay, LetsClientsLookOnAsTheyLike) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const auto digest_of = [](std::vector<std::string> text, int further) {
    test::made_cluster cluster(std::move(text));
    const auto embedding = cluster.server(0).make<nn::embedding_bag>(
        {.num_embeddings = 100, .embedding_dim = 16, .mode = nn::pooling::sum});
    cluster.client(look_on, embedding, further);
    return cluster.run(2, train, embedding, 0.05).weights_digest;
  };
  const std::string digest = digest_of({"--trace", "full", "--trace-dir", there, "--quiet"}, 3);
  EXPECT_EQ(digest_of({"--replay", there, "--quiet"}, 0), digest);
  EXPECT_EQ(digest_of({"--replay", there, "--quiet"}, 9), digest);
}

/// Trainers that exchange tensors but do not train; `factor` is the change in an edited program.
task<> talk(trainer me, float factor) {
  const group all = me.group();
  tensor mine({3});
  std::ranges::fill(mine.as<float>(), factor * static_cast<float>(me.rank() + 1));
  const tensor sum = co_await all.all_reduce(mine);
  all.send(sum, (me.rank() + 1) % all.size());
  tensor got = co_await all.recv((me.rank() + 1) % all.size());
  got.as<float>()[0] = -1;  // the receiver owns its tensor
  co_await all.barrier();
}

std::string error_of_talk(std::vector<std::string> text, float factor) {
  test::made_cluster cluster(std::move(text));
  return test::error_of([&] { cluster.run(2, talk, factor); });
}

TEST(LibraryReplay, ComparesCollectivesAlone) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  EXPECT_EQ(error_of_talk({"--trace", "full", "--trace-dir", there, "--quiet"}, 1), "no error");
  EXPECT_EQ(error_of_talk({"--replay", there, "--quiet"}, 1), "no error");
  const std::string other = error_of_talk({"--replay", there, "--quiet"}, 2);
  EXPECT_NE(other.find("the replay is not the recorded run: step 0: collective_share from trainer "), std::string::npos)
      << other;
}

TEST(LibraryReplay, NamesTheFirstDifference) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  run({"--trace", "full", "--trace-dir", there, "--quiet"});
  EXPECT_FINDS(test::error_of([&] {
                 run({"--replay", there, "--quiet"}, 2);
               }),
               "the replay is not the recorded run: step 0: set_optimizer from trainer ");
}

TEST(LibraryTraces, HaveTheNamesThatTheProgramGives) {
  const trace::temporary_folder folder;
  run({"--trace", "full", "--trace-dir", folder.path().string(), "--quiet"});
  trace::sources from;
  from.paths = {folder.path()};
  const auto recorded = trace::read_recording(from);
  ASSERT_TRUE(recorded) << recorded.error().message;
  int passes = 0;
  for (const trace::event& one : recorded->events)
    passes +=
        one.what == trace::kind::range && recorded->range_text(static_cast<trace::range_name>(one.type)) == "tower";
  EXPECT_EQ(passes, 2 * 10) << "a pass of each trainer in each step";
}

TEST(LibraryTraces, RefuseNamesThatCannotBeOnes) {
  test::made_cluster cluster({"--quiet"});
  const auto twice = [](trainer me) -> task<> {
    const auto first = me.data_parallel(nn::linear(2, 2), {.name = "tower"});
    const auto second = me.data_parallel(nn::linear(2, 2), {.name = "tower"});
    co_return;
  };
  EXPECT_FINDS(test::error_of([&] { cluster.run(1, twice); }), "the name 'tower' is another replica's");
}

}  // namespace
}  // namespace troupe::library_replay_test
