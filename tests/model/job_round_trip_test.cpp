// A job survives the way through its settings: what a job file, a command line and a message to another process carry.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/random.hpp"

namespace troupe {
namespace {

job parsed(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

void expect_same(const job& a, const job& b) {
  EXPECT_EQ(a.data, b.data);
  EXPECT_EQ(a.trainers, b.trainers);
  EXPECT_EQ(a.servers, b.servers);
  EXPECT_EQ(a.epochs, b.epochs);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.batch_size, b.batch_size);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.tables, b.tables);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.dim, b.dim);
  EXPECT_EQ(a.bag, b.bag);
  EXPECT_EQ(a.classes, b.classes);
  EXPECT_EQ(a.id_skew, b.id_skew);
  EXPECT_EQ(a.row_dtype, b.row_dtype);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.interaction, b.interaction);
  EXPECT_EQ(a.bottom_hidden, b.bottom_hidden);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.dense_optimizer, b.dense_optimizer);
  EXPECT_EQ(a.sparse_optimizer, b.sparse_optimizer);
  EXPECT_EQ(a.sparse_reduce, b.sparse_reduce);
  EXPECT_EQ(a.bucket_mib, b.bucket_mib);
  EXPECT_EQ(a.eval_every, b.eval_every);
}

TEST(job, defaults_survive_the_way_through_settings) {
  for (const char* data : {"adult", "tutorial", "synthetic", "replay:some file.safetensors"}) {
    const job made = parsed({{"data", data}});
    expect_same(parsed(to_settings(made)), made);
  }
}

// Each setting with a random valid value, or left out.
std::vector<setting> random_settings(random_sequence& random) {
  const auto number = [&random](std::uint64_t low, std::uint64_t high) {
    return std::to_string(low + random.below(high - low + 1));
  };
  const auto pick = [&random](std::vector<std::string> from) { return from[random.below(from.size())]; };
  const std::string data = pick({"adult", "tutorial", "synthetic", "replay:a:b=c"});
  const std::vector<std::string> optimizers{"sgd", "sgd:momentum=0.9,nesterov=true", "adagrad:eps=1e-5",
                                            "adam:beta1=0.123456789,weight_decay=3e-7"};
  std::vector<std::string> table_optimizers{"rowwise-adagrad:eps=1e-3", "lazy-sgd:momentum=0.5", "lazy-adam"};
  table_optimizers.insert(table_optimizers.end(), optimizers.begin(), optimizers.end());
  std::vector<setting> given{
      {"trainers", number(1, 64)},
      {"servers", number(1, 1024)},
      {"epochs", number(1, 1000)},
      {"steps", number(1, 1'000'000)},
      {"seed", std::to_string(random.bits())},
      {"hidden", pick({"none", "1", "64,32", "7,5,3"})},
      {"loss", pick({"cross-entropy", "mse"})},
      {"dense-optimizer", pick(optimizers)},
      {"sparse-optimizer", pick(table_optimizers)},
      {"dense-lr", std::to_string(random.unit())},
      {"sparse-lr", std::to_string(random.unit() * 100)},
      {"sparse-reduce", pick({"sum", "mean"})},
      {"bucket-mib", std::to_string(random.unit() + 1e-3)},
      {"eval-every", number(0, 9)},
      {"lr-schedule", pick({"constant", "warmup:7", "step:3,0.1", "warmup:9+cosine:80+constant"})},
      {"row-dtype", pick({"f32", "f16", "bf16"})},
      {"consistency", "sync"}};
  if (data == "adult" || data == "synthetic") {
    given.emplace_back("batch-size", number(1, 1000));
    given.emplace_back("dim", number(1, 128));
  }
  if (data == "synthetic") {
    given.emplace_back("tables", number(1, 26));
    given.emplace_back("rows", number(1, 1'000'000));
    given.emplace_back("bag", number(1, 30));
    given.emplace_back("classes", number(2, 10));
    given.emplace_back("id-skew", pick({"uniform", "zipf:1.1", "zipf:0.7"}));
  }
  std::erase_if(given, [&random](const setting&) { return random.below(3) == 0; });
  if (data == "adult" && random.below(2) == 0) {
    given.emplace_back("interaction", "dot");
    if (random.below(2) == 0) given.emplace_back("bottom-hidden", pick({"none", "32", "9,8"}));
  }
  given.emplace_back("data", data);
  return given;
}

TEST(job, random_jobs_survive_the_way_through_settings) {
  random_sequence random(5);
  for (int i = 0; i < 500; ++i) {
    const job made = parsed(random_settings(random));
    expect_same(parsed(to_settings(made)), made);
  }
}

}  // namespace
}  // namespace troupe
