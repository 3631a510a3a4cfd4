// A job survives the conversion to settings and back: job files, command lines and messages to other processes carry
// settings.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/job_file.hpp"
#include "model/random.hpp"
#include "tests/model/tensor_file.hpp"

namespace troupe::model::job_round_trip_test {
namespace {

job parsed(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

void expect_same(const job& a, const job& b) { EXPECT_TRUE(a == b) << testing::PrintToString(to_settings(a)); }

constexpr const char* some_columns =
    R"([{"name":"clicked","kind":"label"},{"name":"pri\"ce","kind":"numeric","transform":"log1p"},)"
    R"({"name":"user","kind":"categorical","rows":1000}])";

TEST(Job, DefaultsSurviveTheWayThroughSettings) {
  for (const char* data : {"adult", "tutorial", "synthetic", "criteo:a.gz", "mnist", "mnist:a b:c", "idx:a:b,c d",
                           "replay:some file.safetensors"}) {
    const job made = parsed({{"data", data}});
    expect_same(parsed(to_settings(made)), made);
  }
}

TEST(Job, IsParsedOnceForAllWhoHoldIt) {
  const std::vector<setting> settings = to_settings(parsed({{"seed", "7"}}));
  auto held = shared_job(settings).value();
  EXPECT_EQ(shared_job(settings).value(), held);
  const job other = parsed({{"seed", "8"}});
  const auto known = shared_job(to_settings(other), &other).value();
  EXPECT_NE(known, held);
  EXPECT_EQ(shared_job(to_settings(other)).value(), known);
  expect_same(*known, other);
  held = nullptr;
  expect_same(*shared_job(settings).value(), parsed(settings));
  EXPECT_FALSE(shared_job({{"seed", "x"}}).has_value());
}

/// Random valid values as texts.
struct random_values {
  random_sequence& random;

  std::string number(std::uint64_t low, std::uint64_t high) {
    return std::to_string(low + random.below(high - low + 1));
  }
  std::string pick(const std::vector<std::string>& from) { return from[random.below(from.size())]; }
};

/// Settings common to all data sets.
std::vector<setting> settings_everywhere(random_values& some) {
  const std::vector<std::string> optimizers{"sgd", "sgd:momentum=0.9,nesterov=true", "adagrad:eps=1e-5",
                                            "adam:beta1=0.123456789,weight_decay=3e-7"};
  std::vector<std::string> table_optimizers{"rowwise-adagrad:eps=1e-3", "lazy-sgd:momentum=0.5", "lazy-adam"};
  table_optimizers.insert(table_optimizers.end(), optimizers.begin(), optimizers.end());
  std::vector<setting> given{
      {"trainers", some.number(1, 64)},
      {"servers", some.number(1, 1024)},
      {"epochs", some.number(1, 1000)},
      {"steps", some.number(1, 1'000'000)},
      {"seed", std::to_string(some.random.bits())},
      {"row-dtype", some.pick({"f32", "f16", "bf16"})},
      {"hidden", some.pick({"none", "1", "64,32", "7,5,3"})},
      {"loss", some.pick({"cross-entropy", "mse"})},
      {"dense-optimizer", some.pick(optimizers)},
      {"sparse-optimizer", some.pick(table_optimizers)},
      {"dense-lr", std::to_string(some.random.unit())},
      {"sparse-lr", std::to_string(some.random.unit() * 100)},
      {"lr-schedule", some.pick({"constant", "warmup:7", "step:3,0.1", "warmup:9+cosine:80+constant"})},
      {"sparse-reduce", some.pick({"sum", "mean"})},
      {"bucket-mib", std::to_string(some.random.unit() + 1e-3)},
      {"wire-dtype", some.pick({"f32", "f16", "bf16"})},
      {"matmul-precision", some.pick({"f32", "tf32", "bf16"})},
      {"accumulate", some.number(1, 9)},
      {"eval-every", some.number(0, 9)}};
  if (some.random.below(2) == 0) {
    given.emplace_back("consistency", "async");
  } else {
    given.emplace_back("consistency", some.pick({"sync", "ssp:3"}));
    given.emplace_back("clip-norm", some.pick({"0", "1", "2.5e-05", "0.1"}));
    given.emplace_back("nan", some.pick({"stop", "skip"}));
  }
  return given;
}

void add_settings_of_data(const std::string& data, random_values& some, std::vector<setting>& given) {
  const bool from_file = data.starts_with("criteo") || data.starts_with("csv");
  if (data == "adult" || data == "synthetic" || from_file) {
    given.emplace_back("batch-size", some.number(1, 1000));
    given.emplace_back("dim", some.number(1, 128));
  }
  if (data == "synthetic" || from_file) given.emplace_back("rows", some.number(2, 1'000'000));
  if (data == "synthetic") {
    given.emplace_back("tables", some.number(1, 26));
    given.emplace_back("bag", some.number(1, 30));
    given.emplace_back("id-skew", some.pick({"uniform", "zipf:1.1", "zipf:0.7"}));
  }
  if (data == "synthetic" || data == "idx:\",=") given.emplace_back("classes", some.number(2, 10));
  if (data == "idx:\",=") given.emplace_back("test-file", "\t,\x7f");
  if (from_file) {
    given.push_back(some.random.below(2) == 0 ? setting("test-file", "\t\x7f\n") : setting("test-fraction", "0.1"));
    given.emplace_back("shuffle-rows", some.number(1, 1000));
  }
  if (data == "csv:x") {
    given.emplace_back("header", some.pick({"true", "false"}));
    given.emplace_back("separator", some.pick({",", "tab", "|", " "}));
  }
}

// Each setting with a random valid value, or omitted.
std::vector<setting> random_settings(random_sequence& random) {
  random_values some{random};
  const std::string data =
      some.pick({"adult", "tutorial", "synthetic", "replay:a:b=c", "criteo:\xc3\xa9\x01\"\\.gz", "csv:x", "idx:\",="});
  std::vector<setting> given = settings_everywhere(some);
  add_settings_of_data(data, some, given);
  std::erase_if(given, [&random](const setting&) { return random.below(3) == 0; });
  if (data == "csv:x") given.emplace_back("columns", some_columns);
  if (data == "adult" && random.below(2) == 0) {
    given.emplace_back("interaction", "dot");
    if (random.below(2) == 0) given.emplace_back("bottom-hidden", some.pick({"none", "32", "9,8"}));
  }
  given.emplace_back("data", data);
  return given;
}

TEST(Job, RandomJobsSurviveTheWayThroughSettings) {
  random_sequence random(5);
  for (int i = 0; i < 500; ++i) {
    const job made = parsed(random_settings(random));
    expect_same(parsed(to_settings(made)), made);
  }
}

TEST(Job, RandomJobsSurviveTheWayThroughAJobFile) {
  random_sequence random(6);
  const temporary_file file("");
  for (int i = 0; i < 500; ++i) {
    const job made = parsed(random_settings(random));
    const auto printed = print_job(to_settings(made), job_settings());
    ASSERT_TRUE(printed) << printed.error().message;
    file.write(*printed);
    const auto read = read_job_file(file.path(), job_settings());
    ASSERT_TRUE(read) << read.error().message << "\n" << *printed;
    std::vector<setting> given;
    for (const auto& entry : read->entries) given.push_back(entry.given);
    const job again = parsed(given);
    expect_same(again, made);
    EXPECT_EQ(print_job(to_settings(again), job_settings()), *printed);
  }
}

}  // namespace
}  // namespace troupe::model::job_round_trip_test
