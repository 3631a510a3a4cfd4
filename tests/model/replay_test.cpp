#include "model/replay.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "tests/model/made_run.hpp"
#include "tests/model/opened_run.hpp"

namespace troupe::model::replay_test {
namespace {

// -- the shipped files: expected values read with Python's struct module ---------------------------------------------

TEST(Replay, AllShippedRunsOpenAndAreSound) {
  const std::map<std::string, std::uint64_t> steps{{"tutorial_sum", 200},
                                                   {"tutorial_mean", 200},
                                                   {"ctr_adagrad", 60},
                                                   {"mlp_mse", 100},
                                                   {"convnet", 6},
                                                   {"cross", 40},
                                                   {"conv_max_pool", 8},
                                                   {"conv_avg_pool", 10},
                                                   {"batch_norm_features", 12},
                                                   {"batch_norm_images", 8},
                                                   {"layer_norm_gelu", 15},
                                                   {"cross_deep", 20},
                                                   {"residual_images", 8},
                                                   {"residual_features", 10},
                                                   {"strided_windows", 8},
                                                   {"conv_cross", 10},
                                                   {"micro_batch_features", 12},
                                                   {"micro_batch_images", 8},
                                                   {"lstm_rows", 10},
                                                   {"lstm_features", 12},
                                                   {"grouped_windows", 8},
                                                   {"attention_rows", 8},
                                                   {"next_word", 10}};
  for (const auto& [name, count] : steps) {
    const auto run = open_reference_run(shipped(name));
    ASSERT_TRUE(run.has_value()) << run.error().message;
    const auto data = data_of(shipped(name));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(data->steps_per_epoch(), count) << name;
    EXPECT_EQ(data->test_rows(), 0U);
    EXPECT_EQ(run->losses.front().size(), count);
    ASSERT_TRUE(data->start().has_value());
    const auto start = *data->start();
    EXPECT_EQ(start.dense.size(), run->dense.size()) << name;
    EXPECT_EQ(start.buffers.size(), run->buffers.size()) << name;
    ASSERT_EQ(start.tables.size(), run->tables.size()) << name;
    for (std::size_t t = 0; t < start.tables.size(); ++t) {
      EXPECT_EQ(start.tables[t].size(),
                static_cast<std::size_t>(data->spec().tables[t].rows) * data->spec().tables[t].dim);
      EXPECT_EQ(run->tables[t].size(), start.tables[t].size());
    }
  }
}

TEST(Replay, SettingsSayTheRunsJob) {
  const auto ctr = open_reference_run(shipped("ctr_adagrad"));
  ASSERT_TRUE(ctr.has_value()) << ctr.error().message;
  const std::vector<setting> expected{{"data", "replay:" + shipped("ctr_adagrad")},
                                      {"trainers", "4"},
                                      {"steps", "60"},
                                      {"hidden", "32,16"},
                                      {"interaction", "cat"},
                                      {"loss", "bce-logits"},
                                      {"dense-optimizer", "adam"},
                                      {"sparse-optimizer", "adagrad"},
                                      {"dense-lr", "0.01"},
                                      {"sparse-lr", "0.05"},
                                      {"sparse-reduce", "mean"},
                                      {"micro-batches", "1"}};
  EXPECT_EQ(ctr->settings, expected);
  const auto mlp = job_of(*open_reference_run(shipped("mlp_mse")));
  EXPECT_EQ(mlp.loss, loss_kind::mse);
  EXPECT_EQ(mlp.hidden, std::vector<std::size_t>{10});
  EXPECT_EQ(to_string(mlp.dense_optimizer), "sgd:momentum=0.9");
  EXPECT_EQ(mlp.dense_optimizer.lr, 0.01);
  const auto sum = job_of(*open_reference_run(shipped("tutorial_sum")));
  EXPECT_EQ(sum.sparse_reduce, sparse_reduction::sum);
  EXPECT_TRUE(sum.hidden.empty());
}

TEST(Replay, BatchesAndResultsAreTheFiles) {
  const auto data = data_of(shipped("ctr_adagrad"));
  ASSERT_NE(data, nullptr);
  const std::vector<table_spec> tables{{1000, 8, kernels::pooling::sum, false},
                                       {50, 16, kernels::pooling::mean, false},
                                       {300, 4, kernels::pooling::max, false}};
  EXPECT_EQ(data->spec().tables, tables);
  EXPECT_EQ(data->spec().dense_features, 4U);
  EXPECT_EQ(data->spec().outputs, 1U);

  const auto taken = data->train_batch(7, 2).value();
  EXPECT_EQ(taken.size, 32U);
  const auto& first = taken.tables[0].indices;
  ASSERT_EQ(first.size(), 95U);
  EXPECT_EQ((std::vector<std::int64_t>(first.begin(), first.begin() + 6)),
            (std::vector<std::int64_t>{2, 424, 6, 14, 353, 740}));
  EXPECT_EQ(taken.tables[1].indices.size(), 57U);
  EXPECT_EQ(taken.tables[1].offsets,
            (std::vector<std::int64_t>{0,  1,  4,  6,  9,  9,  9,  12, 12, 16, 16, 17, 17, 19, 22, 23,
                                       26, 26, 26, 26, 27, 29, 31, 34, 38, 40, 40, 43, 46, 48, 52, 55}));
  EXPECT_EQ(taken.tables[2].indices[4], 55);
  EXPECT_EQ(taken.dense[0], -0.7525059580802917F);
  EXPECT_EQ(taken.dense[3], -1.949817180633545F);
  EXPECT_EQ(taken.values[3], 1.0F);
  EXPECT_TRUE(taken.classes.empty());
  EXPECT_EQ(data->train_batch(67, 2).value().tables[0].indices, first);

  const auto start = *data->start();
  EXPECT_EQ(start.tables[1][1], 0.08057235181331635F);
  // Layer 0 has 32 x 32 weights, then its bias; layer 1 has 16 x 32 and 16; layer 2 has 16 and 1.
  EXPECT_EQ(start.dense[1024], 0.09963089227676392F);
  EXPECT_EQ(start.dense.back(), -0.030540097504854202F);
  const auto run = *open_reference_run(shipped("ctr_adagrad"));
  EXPECT_EQ(run.tables[2].back(), -0.6145657095915368);
  EXPECT_EQ(run.dense.back(), -0.22597374677233495);
  EXPECT_EQ(run.losses.at(3).at(59), 0.5578384398879255);

  const auto last = data_of(shipped("tutorial_mean"))->train_batch(199, 1).value();
  EXPECT_EQ(last.classes, (std::vector<std::int64_t>{4, 0, 7, 3, 1}));
  EXPECT_EQ(last.tables[0].offsets, (std::vector<std::int64_t>{0, 1, 9, 14, 24}));
}

// -- made files ------------------------------------------------------------------------------------------------------

TEST(Replay, WeightsAndEmptyBagsAreRead) {
  const temporary_file file(made_run().bytes());
  const auto data = data_of(file.path());
  ASSERT_NE(data, nullptr);
  const std::vector<table_spec> tables{{4, 2, kernels::pooling::sum, true}, {3, 1, kernels::pooling::mean, false}};
  EXPECT_EQ(data->spec().tables, tables);
  EXPECT_EQ(data->spec().outputs, 2U);
  const auto first = data->train_batch(0, 0).value();
  EXPECT_EQ(first.size, 2U);
  EXPECT_EQ(first.tables[0].indices, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(first.tables[0].offsets, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(first.tables[0].weights, (std::vector<float>{0.5F, -1}));
  EXPECT_EQ(first.tables[1].offsets, (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(first.tables[1].weights.empty());
  EXPECT_EQ(first.dense, (std::vector<float>{0.25F, 0.5F}));
  EXPECT_EQ(first.values, (std::vector<float>{0, 1, 1, 0}));
  const auto second = data->train_batch(1, 0).value();
  EXPECT_EQ(second.size, 1U);
  EXPECT_EQ(second.tables[0].weights, std::vector<float>{2});
  EXPECT_TRUE(second.tables[1].indices.empty());
  EXPECT_EQ(second.values, (std::vector<float>{1, 1}));
  EXPECT_EQ(data->start()->tables[0], (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(data->start()->dense, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Replay, OptimizersAreReadWithPytorchsDefaults) {
  const temporary_file file(made_run().bytes());
  const auto made = job_of(*open_reference_run(file.path()));
  EXPECT_EQ(made.dense_optimizer, (optimizer_spec{adam_options{0.8, 0.95, 1e-6, 0.01}, 0.001, {}}));
  EXPECT_EQ(made.sparse_optimizer, (optimizer_spec{adagrad_options{1e-10, 0.1, 0}, 0.01, {}}));
  EXPECT_EQ(made.sparse_reduce, sparse_reduction::mean);
}

TEST(Replay, AFileWrittenAnewIsReadAnew) {
  auto content = made_run();
  const temporary_file file(content.bytes());
  const auto before = data_of(file.path());
  content.set<std::int64_t>("trainer.0.table.0.indices", {3}, {1, 1, 1});
  content.set<float>("unused", {1}, {0});
  file.write(content.bytes());
  const auto after = data_of(file.path());
  EXPECT_EQ(before->train_batch(0, 0).value().tables[0].indices, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(after->train_batch(0, 0).value().tables[0].indices, (std::vector<std::int64_t>{1, 1}));
}

// -- inconsistent files ----------------------------------------------------------------------------------------------

template <class T>
std::string refusal_with(const std::string& name, const std::vector<std::uint64_t>& shape,
                         const std::vector<T>& values) {
  auto file = made_run();
  file.set<T>(name, shape, values);
  return refusal(file);
}

TEST(Replay, BadBatchesAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.table.0.indices", {3}, {3, 0, 4}),
            "trainer 0, step 1 (from 0): table 0: index 4 in sample 0: must be between 0 and 3, the table has 4 rows");
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.table.0.indices", {3}, {3, -1, 0}),
            "trainer 0, step 0 (from 0): table 0: index -1 in sample 1: must be between 0 and 3, the table has 4 rows");
  EXPECT_EQ(
      refusal_with<std::int64_t>("trainer.0.table.1.offsets", {3}, {0, 2, 0}),
      "trainer 0, step 0 (from 0): table 1: offset 2 of sample 1: offsets must start at 0, never descend, and not "
      "exceed the 1 indices");
  EXPECT_EQ(
      refusal_with<std::int64_t>("trainer.0.table.0.offsets", {3}, {1, 1, 0}),
      "trainer 0, step 0 (from 0): table 0: offset 1 of sample 0: offsets must start at 0, never descend, and not "
      "exceed the 2 indices");
  auto classes = made_run();
  classes.config.replace(classes.config.find("bce_logits"), 10, "cross_entropy");
  classes.set<std::int64_t>("trainer.0.target", {3}, {0, 1, 2});
  EXPECT_EQ(refusal(classes), "trainer 0, step 1 (from 0): class 2 of sample 0: must be between 0 and 1");
}

TEST(Replay, CountsThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.bags", {3}, {2, 1, 0}), "tensor trainer.0.bags: 3 values: must be 2");
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.bags", {2}, {2, 2}),
            "tensor trainer.0.table.0.offsets: 3 values: must be 4");
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.bags", {2}, {4, -1}),
            "tensor trainer.0.bags, step 1: -1: must be between 0 and 2147483648");
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.bags", {2}, {0, std::numeric_limits<std::int64_t>::max()}),
            "tensor trainer.0.bags, step 1: 9223372036854775807: must be between 0 and 2147483648");
  EXPECT_EQ(refusal_with<std::int64_t>("trainer.0.table.0.index_count", {2}, {2, 2}),
            "tensor trainer.0.table.0.indices: 3 values: must be 4");
  EXPECT_EQ(refusal_with<float>("trainer.0.table.0.weights", {2}, {1, 2}),
            "tensor trainer.0.table.0.weights: 2 values: must be 3");
  EXPECT_EQ(refusal_with<float>("trainer.0.dense", {2}, {1, 2}), "tensor trainer.0.dense: 2 values: must be 3");
  EXPECT_EQ(refusal_with<float>("trainer.0.target", {3}, {1, 2, 3}), "tensor trainer.0.target: 3 values: must be 6");
  EXPECT_EQ(refusal_with<double>("trainer.0.loss", {1}, {1}), "tensor trainer.0.loss: 1 values: must be 2");
}

TEST(Replay, ShapesTypesAndValuesThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal_with<float>("init.table.0.weight", {2, 4}, std::vector<float>(8)),
            "tensor init.table.0.weight: shape [2, 4]: must be [4, 2]");
  EXPECT_EQ(refusal_with<float>("final.dense.0.weight", {2, 3}, std::vector<float>(6)),
            "tensor final.dense.0.weight: shape [2, 3]: must be [2, 4]");
  EXPECT_EQ(refusal_with<std::int64_t>("init.dense.0.bias", {2}, {1, 2}),
            "tensor init.dense.0.bias of type I64: must be F32 or F64");
  EXPECT_EQ(refusal_with<float>("trainer.0.bags", {2}, {2, 1}), "tensor trainer.0.bags of type F32: must be I64");
  EXPECT_EQ(refusal_with<double>("init.dense.0.bias", {2}, {1, 1e300}),
            "tensor init.dense.0.bias, value 1: inf: must be finite in float32");
  EXPECT_EQ(refusal_with<float>("trainer.0.dense", {3}, {1, std::nanf(""), 3}),
            "tensor trainer.0.dense, value 1: nan: must be finite");
}

TEST(Replay, MissingTensorsAreRefusedByName) {
  for (const char* name :
       {"init.table.1.weight", "final.table.0.weight", "init.dense.0.bias", "final.dense.0.weight", "trainer.0.bags",
        "trainer.0.table.0.index_count", "trainer.0.table.1.indices", "trainer.0.table.0.offsets",
        "trainer.0.table.0.weights", "trainer.0.dense", "trainer.0.target", "trainer.0.loss"}) {
    auto file = made_run();
    file.remove(name);
    EXPECT_EQ(refusal(file), fmt::format("tensor {} is missing", name));
  }
}

TEST(Replay, AFileThatDoesNotFitInMemoryIsRefusedBeforeItIsRead) {
  constexpr std::uint64_t size = std::uint64_t{1} << 42;
  const std::string header = fmt::format(R"({{"x":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", size, size);
  const std::uint64_t length = header.size();
  const temporary_file file(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  std::filesystem::resize_file(file.path(), sizeof length + length + size);  // a hole, which uses no disk space
  const auto refused = open_reference_run(file.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find(": its tensors would take 4096.0 GiB, and "), std::string::npos)
      << refused.error().message;
}

TEST(Replay, AFileWithoutConfigurationIsRefused) {
  const temporary_file file(file_of("{}"));
  EXPECT_EQ(open_reference_run(file.path()).error().message,
            file.path() + ": __metadata__.config is missing: must be a reference run");
  EXPECT_EQ(open_reference_run("/does/not/exist").error().message,
            "/does/not/exist: No such file or directory; a safetensors file is expected");
}

TEST(Replay, AJobThatDoesNotFitTheRunIsRefused) {
  const auto with = [](const std::string& name, std::vector<setting> more) {
    auto settings = open_reference_run(shipped(name))->settings;
    settings.insert(settings.end(), more.begin(), more.end());
    const auto opened = open_dataset(*parse_job(settings));
    return opened ? "opened" : opened.error().message;
  };
  EXPECT_EQ(with("ctr_adagrad", {{"trainers", "3"}}), "--trainers 3: must be 4, as in the reference run");
  EXPECT_EQ(with("ctr_adagrad", {{"hidden", "32"}}), "--hidden 32: must be 32,16, as in the reference run");
  EXPECT_EQ(with("ctr_adagrad", {{"interaction", "dot"}}), "--interaction dot: must be cat, as in the reference run");
  EXPECT_EQ(with("ctr_adagrad", {{"loss", "mse"}}), "--loss mse: must be bce-logits, as in the reference run");
  EXPECT_EQ(with("ctr_adagrad", {{"servers", "0"}}), "--servers 0: must be at least 1; the reference run has 3 tables");
  EXPECT_EQ(with("mlp_mse", {{"servers", "0"}}), "opened");
  EXPECT_EQ(with("ctr_adagrad", {{"servers", "7"}, {"seed", "3"}, {"steps", "5"}}), "opened");
}

// -- many small damages ----------------------------------------------------------------------------------------------

class FlippedBytes : public testing::TestWithParam<bool> {};

TEST_P(FlippedBytes, AreSurvived) {
  const std::string sound = (GetParam() ? made_layer_run() : made_run()).bytes();
  const temporary_file file(sound);
  for (std::size_t place = 0; place < sound.size(); ++place) {
    for (const int flip : {0x01, 0x80}) {
      file.overwrite(place, static_cast<char>(sound[place] ^ flip));
      const auto run = open_reference_run(file.path());
      if (!run) continue;
      const auto made = parse_job(run->settings);
      if (!made) continue;
      const auto opened = open_dataset(*made);
      if (!opened) continue;
      for (std::uint64_t step = 0; step < (*opened)->steps_per_epoch(); ++step) {
        for (std::uint32_t rank = 0; rank < made->trainers; ++rank) {
          EXPECT_FALSE(check_batch((*opened)->spec(), (*opened)->train_batch(step, rank).value()).has_value());
        }
      }
    }
    file.overwrite(place, sound[place]);
  }
}

INSTANTIATE_TEST_SUITE_P(Replay, FlippedBytes, testing::Bool(),
                         [](const auto& one) { return one.param ? "layers" : "tables"; });

}  // namespace
}  // namespace troupe::model::replay_test
