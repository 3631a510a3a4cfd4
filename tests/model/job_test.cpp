#include "model/job.hpp"
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/model/parsed_job.hpp"

namespace troupe::model::job_test {
namespace {

std::map<std::string, std::string> settings_of(const std::vector<setting>& given) {
  const auto settings = to_settings(parsed(given));
  return {settings.begin(), settings.end()};
}

/// The defaults common to all data, and `own`: the defaults of the program's contract for one data set.
std::map<std::string, std::string> defaults_with(std::map<std::string, std::string> own) {
  const std::map<std::string, std::string> all{{"trainers", "2"},
                                               {"servers", "1"},
                                               {"seed", "1"},
                                               {"row-dtype", "f32"},
                                               {"table-split", "rows"},
                                               {"interaction", "cat"},
                                               {"sparse-lr", "0.05"},
                                               {"lr-schedule", "constant"},
                                               {"consistency", "sync"},
                                               {"wire-dtype", "f32"},
                                               {"matmul-precision", "f32"},
                                               {"accumulate", "1"},
                                               {"micro-batches", "1"},
                                               {"pipeline", "1"},
                                               {"tensor-parallel", "1"},
                                               {"clip-norm", "0"},
                                               {"bucket-mib", "25"},
                                               {"eval-every", "1"},
                                               {"nan", "stop"}};
  own.insert(all.begin(), all.end());
  return own;
}

TEST(Job, DefaultsOfAdult) {
  EXPECT_EQ(settings_of({}), defaults_with({{"data", "adult"},
                                            {"epochs", "6"},
                                            {"batch-size", "128"},
                                            {"dim", "8"},
                                            {"hidden", "64,32"},
                                            {"loss", "bce-logits"},
                                            {"dense-optimizer", "adam"},
                                            {"sparse-optimizer", "adagrad"},
                                            {"dense-lr", "0.002"},
                                            {"sparse-reduce", "mean"}}));
}

TEST(Job, DefaultsOfTutorial) {
  EXPECT_EQ(settings_of({{"data", "tutorial"}}), defaults_with({{"data", "tutorial"},
                                                                {"epochs", "100"},
                                                                {"hidden", "none"},
                                                                {"loss", "cross-entropy"},
                                                                {"dense-optimizer", "sgd"},
                                                                {"sparse-optimizer", "sgd"},
                                                                {"dense-lr", "0.05"},
                                                                {"sparse-reduce", "sum"}}));
}

TEST(Job, DefaultsOfSynthetic) {
  EXPECT_EQ(settings_of({{"data", "synthetic"}}), defaults_with({{"data", "synthetic"},
                                                                 {"epochs", "1"},
                                                                 {"batch-size", "256"},
                                                                 {"tables", "1"},
                                                                 {"rows", "100000"},
                                                                 {"dim", "16"},
                                                                 {"bag", "10"},
                                                                 {"classes", "2"},
                                                                 {"id-skew", "uniform"},
                                                                 {"hidden", "64"},
                                                                 {"loss", "cross-entropy"},
                                                                 {"dense-optimizer", "sgd"},
                                                                 {"sparse-optimizer", "sgd"},
                                                                 {"dense-lr", "0.05"},
                                                                 {"sparse-reduce", "mean"}}));
}

TEST(Job, OlderSpellingsOfNumberTypesAreReadAndThePresentOnesWritten) {
  const auto written = [](const char* name, const char* text) {
    const auto settings = to_settings(parsed({{name, text}}));
    return std::ranges::find(settings, name, &setting::first)->second;
  };
  for (const char* name : {"row-dtype", "wire-dtype", "matmul-precision"}) {
    EXPECT_EQ(written(name, "fp32"), "f32") << name;
    EXPECT_EQ(written(name, "f32"), "f32") << name;
  }
  EXPECT_EQ(parsed({{"wire-dtype", "fp16"}}).wire_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(written("wire-dtype", "fp16"), "f16");
  EXPECT_EQ(written("row-dtype", "fp16"), "f16");
  EXPECT_EQ(written("matmul-precision", "tf32"), "tf32");
}

TEST(Job, DefaultsOfFiles) {
  EXPECT_EQ(settings_of({{"data", "criteo:train.txt"}}), defaults_with({{"data", "criteo:train.txt"},
                                                                        {"epochs", "1"},
                                                                        {"batch-size", "256"},
                                                                        {"rows", "100000"},
                                                                        {"dim", "16"},
                                                                        {"test-fraction", "0"},
                                                                        {"shuffle-rows", "65536"},
                                                                        {"hidden", "64,32"},
                                                                        {"loss", "bce-logits"},
                                                                        {"dense-optimizer", "sgd"},
                                                                        {"sparse-optimizer", "sgd"},
                                                                        {"dense-lr", "0.05"},
                                                                        {"sparse-reduce", "mean"}}));
}

TEST(Job, DefaultsOfImages) {
  const std::map<std::string, std::string> both{{"servers", "0"},
                                                {"batch-size", "64"},
                                                {"hidden", "64"},
                                                {"loss", "cross-entropy"},
                                                {"dense-lr", "0.001"},
                                                {"dense-optimizer", "adam"},
                                                {"sparse-optimizer", "sgd"},
                                                {"sparse-reduce", "mean"}};
  auto of_mnist = both;
  of_mnist.insert({{"data", "mnist:a"}, {"epochs", "2"}});
  EXPECT_EQ(settings_of({{"data", "mnist:a"}}), defaults_with(of_mnist));
  auto of_idx = both;
  of_idx.insert({{"data", "idx:a,b"}, {"epochs", "1"}, {"classes", "10"}});
  EXPECT_EQ(settings_of({{"data", "idx:a,b"}}), defaults_with(of_idx));
}

TEST(Job, SettingsReachTheirFields) {
  const job made = parsed({{"data", "synthetic"},
                           {"trainers", "3"},
                           {"servers", "4"},
                           {"epochs", "5"},
                           {"steps", "600"},
                           {"batch-size", "7"},
                           {"seed", "18446744073709551615"},
                           {"tables", "8"},
                           {"rows", "9"},
                           {"dim", "10"},
                           {"bag", "11"},
                           {"classes", "12"},
                           {"id-skew", "zipf:1.25"},
                           {"hidden", "64,32,16"},
                           {"loss", "mse"},
                           {"dense-optimizer", "adam:beta1=0.5"},
                           {"sparse-optimizer", "sgd:momentum=0.25"},
                           {"dense-lr", "0.5"},
                           {"sparse-lr", "2.5e-3"},
                           {"sparse-reduce", "sum"},
                           {"bucket-mib", "0.125"},
                           {"eval-every", "0"}});
  EXPECT_EQ(made.data, "synthetic");
  EXPECT_EQ(made.trainers, 3U);
  EXPECT_EQ(made.servers, 4U);
  EXPECT_EQ(made.epochs, 5U);
  EXPECT_EQ(made.steps, 600U);
  EXPECT_EQ(made.batch_size, 7U);
  EXPECT_EQ(made.seed, 18446744073709551615U);
  EXPECT_EQ(made.tables, 8U);
  EXPECT_EQ(made.rows, 9);
  EXPECT_EQ(made.dim, 10U);
  EXPECT_EQ(made.bag, 11U);
  EXPECT_EQ(made.classes, 12U);
  EXPECT_EQ(made.id_skew, 1.25);
  EXPECT_EQ(made.hidden, (std::vector<std::size_t>{64, 32, 16}));
  EXPECT_EQ(made.loss, loss_kind::mse);
  EXPECT_EQ(to_string(made.dense_optimizer), "adam:beta1=0.5");
  EXPECT_EQ(made.dense_optimizer.lr, 0.5);
  EXPECT_EQ(to_string(made.sparse_optimizer), "sgd:momentum=0.25");
  EXPECT_EQ(made.sparse_optimizer.lr, 0.0025);
  EXPECT_EQ(made.sparse_reduce, sparse_reduction::sum);
  EXPECT_EQ(made.bucket_mib, 0.125);
  EXPECT_EQ(made.eval_every, 0U);
}

TEST(Job, SettingsOfTheRunReachTheirFields) {
  const job made = parsed(
      {{"row-dtype", "bf16"}, {"consistency", "ssp:3"}, {"accumulate", "4"}, {"clip-norm", "1.5"}, {"nan", "skip"}});
  EXPECT_EQ(made.row_dtype, kernels::row_dtype::bf16);
  EXPECT_EQ(made.staleness, 3U);
  EXPECT_EQ(made.accumulate, 4U);
  EXPECT_EQ(made.clip_norm, 1.5);
  EXPECT_EQ(made.nan, nan_policy::skip);
  EXPECT_EQ(made.wire_dtype, kernels::row_dtype::f32);
  EXPECT_EQ(parsed({{"wire-dtype", "f16"}}).wire_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(parsed({{"wire-dtype", "bf16"}}).wire_dtype, kernels::row_dtype::bf16);
  EXPECT_EQ(parsed({{"row-dtype", "f16"}}).row_dtype, kernels::row_dtype::f16);
  EXPECT_EQ(parsed({{"consistency", "async"}}).staleness, any_staleness);
  EXPECT_EQ(parsed({{"consistency", "ssp:0"}}).staleness, 0U);
  EXPECT_EQ(parsed({{"interaction", "dot"}}).interaction, interaction_kind::dot);
}

TEST(Job, SettingsOfFilesReachTheirFields) {
  const job made = parsed({{"data", "criteo:a b.gz"}, {"rows", "7"}, {"test-file", "t.gz"}, {"shuffle-rows", "9"}});
  EXPECT_EQ(made.data, "criteo:a b.gz");
  EXPECT_EQ(made.rows, 7);
  EXPECT_EQ(made.test_file, "t.gz");
  EXPECT_EQ(made.shuffle_rows, 9U);
  EXPECT_EQ(parsed({{"data", "criteo:x"}, {"test-fraction", "0.25"}}).test_fraction, 0.25);
  const std::string columns = R"([{"name":"y","kind":"label"},{"name":"a","kind":"numeric"}])";
  const job csv = parsed({{"data", "csv:a.csv"},
                          {"columns", columns},
                          {"header", "false"},
                          {"separator", "tab"},
                          {"loss", "cross-entropy"},
                          {"classes", "5"}});
  EXPECT_EQ(csv.columns, columns);
  EXPECT_FALSE(csv.header);
  EXPECT_EQ(csv.separator, '\t');
  EXPECT_EQ(csv.classes, 5U);
}

TEST(Job, NumbersMayHaveAPlusSignAndBeTooSmallForADouble) {
  const job made = parsed({{"steps", "+5"}, {"dense-lr", "+0.5"}, {"sparse-lr", "1e-400"}, {"hidden", "+8,4"}});
  EXPECT_EQ(made.steps, 5U);
  EXPECT_EQ(made.dense_optimizer.lr, 0.5);
  EXPECT_EQ(made.sparse_optimizer.lr, 0);
  EXPECT_EQ(made.hidden, (std::vector<std::size_t>{8, 4}));
  EXPECT_EQ(parsed({{"dense-optimizer", "adam:eps=+1e-400"}}).dense_optimizer.as<adam_options>()->eps, 0);
  EXPECT_EQ(parsed({{"dense-lr", "5e-324"}}).dense_optimizer.lr, 5e-324);
}

TEST(Job, LearningRateAndOptimizerDoNotDependOnTheirOrder) {
  const job made = parsed({{"sparse-lr", "0.7"}, {"sparse-optimizer", "adam"}});
  EXPECT_EQ(made.sparse_optimizer.lr, 0.7);
  EXPECT_EQ(made.sparse_optimizer.options, optimizer_options(adam_options()));
}

TEST(Job, TheScheduleIsOneForBothLearningRates) {
  const job made = parsed({{"lr-schedule", "warmup:10+cosine:100"}, {"sparse-optimizer", "lazy-adam"}});
  EXPECT_EQ(to_string(made.dense_optimizer.schedule), "warmup:10+cosine:100");
  EXPECT_EQ(made.sparse_optimizer.schedule, made.dense_optimizer.schedule);
  EXPECT_EQ(settings_of({{"lr-schedule", "step:5,0.5"}})["lr-schedule"], "step:5,0.5");
  EXPECT_EQ(refusal({{"lr-schedule", "constant+cosine:9"}}),
            "--lr-schedule constant+cosine:9: constant never ends, so nothing can follow it; put it last");
}

TEST(Job, OptimizersOfTablesAreForTables) {
  EXPECT_EQ(to_string(parsed({{"sparse-optimizer", "lazy-sgd"}}).sparse_optimizer), "lazy-sgd");
  EXPECT_EQ(refusal({{"dense-optimizer", "rowwise-adagrad"}}),
            "--dense-optimizer rowwise-adagrad: rowwise-adagrad is for the rows of tables only; use adagrad");
}

TEST(Job, TheLastOfTwoEqualSettingsCounts) {
  EXPECT_EQ(parsed({{"seed", "3"}, {"seed", "4"}}).seed, 4U);
  EXPECT_EQ(parsed({{"data", "synthetic"}, {"data", "tutorial"}}).data, "tutorial");
}

TEST(Job, EverySettingHasAHelpLine) {
  const auto& infos = job_settings();
  ASSERT_FALSE(infos.empty());
  EXPECT_EQ(infos.front().name, "data");
  std::map<std::string, std::string> default_of;
  std::map<std::string, setting_type> type_of;
  for (const auto& info : infos) {
    type_of[info.name] = info.type;
    EXPECT_FALSE(info.value_name.empty()) << info.name;
    EXPECT_FALSE(info.meaning.empty()) << info.name;
    EXPECT_TRUE(default_of.emplace(info.name, info.default_text).second) << info.name;
  }
  EXPECT_EQ(default_of["trainers"], "2");
  EXPECT_EQ(default_of["servers"], "mnist, idx 0; else 1");
  EXPECT_EQ(default_of["classes"], "synthetic, csv 2; idx 10");
  EXPECT_EQ(default_of["epochs"], "adult 6; tutorial 100; mnist 2; else 1");
  EXPECT_EQ(default_of["batch-size"], "adult 128; synthetic, criteo, csv 256; mnist, idx 64");
  EXPECT_EQ(default_of["rows"], "synthetic, criteo, csv 100000");
  EXPECT_EQ(default_of["hidden"], "tutorial none; synthetic, mnist, idx 64; else 64,32");
  EXPECT_EQ(default_of["loss"], "adult, criteo, csv bce-logits; else cross-entropy");
  for (const auto& [name, text] : default_of) EXPECT_EQ(text.find("replay"), std::string::npos) << name << ": " << text;
  EXPECT_EQ(default_of["header"], "csv true");
  EXPECT_EQ(default_of["test-file"], "");
  EXPECT_EQ(default_of["sparse-reduce"], "tutorial sum; else mean");
  EXPECT_EQ(default_of["steps"], "");
  EXPECT_EQ(type_of["data"], setting_type::text);
  EXPECT_EQ(type_of["seed"], setting_type::whole);
  EXPECT_EQ(type_of["clip-norm"], setting_type::real);
  EXPECT_EQ(type_of["header"], setting_type::truth);
  EXPECT_EQ(type_of["bottom-hidden"], setting_type::widths);
  EXPECT_EQ(type_of["columns"], setting_type::entries);
  EXPECT_EQ(type_of["metrics"], setting_type::names);
}

TEST(Nearest, GoesByEditsAndSwaps) {
  EXPECT_EQ(nearest("hiden", {"data", "hidden", "seed"}), "hidden");
  EXPECT_EQ(nearest("esed", {"epochs", "dim", "seed"}), "seed");
  EXPECT_EQ(nearest("ab", {"cd", "ba"}), "ba");
  EXPECT_EQ(nearest("", {"abc", "a"}), "a");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), {"abc", "xx"}), "xx");
}

}  // namespace
}  // namespace troupe::model::job_test
