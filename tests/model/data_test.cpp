#include "model/data.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <thread>

#include "model/datasets.hpp"
#include "model/job.hpp"
#include "tests/model/temporary_file.hpp"

namespace troupe::model::data_test {
namespace {

// Two tables, the second with weights; two samples; one dense feature; three classes.
data_spec spec_of_two() {
  data_spec spec;
  spec.tables = {{10, 4, kernels::pooling::mean, false}, {5, 2, kernels::pooling::sum, true}};
  spec.dense_features = 1;
  spec.outputs = 3;
  return spec;
}

batch sound_batch() {
  batch sound;
  sound.size = 2;
  sound.tables = {{{0, 9, 3}, {0, 1}, {}}, {{4, 4}, {0, 2}, {0.5F, 2}}};
  sound.dense = {1, 2};
  sound.classes = {0, 2};
  return sound;
}

std::string fault_of(const batch& what) { return check_batch(spec_of_two(), what).value_or("none"); }

TEST(CheckBatch, AcceptsWhatIsSound) {
  EXPECT_EQ(fault_of(sound_batch()), "none");
  auto with_values = sound_batch();
  with_values.classes.clear();
  with_values.values = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(fault_of(with_values), "none");
  batch empty;
  empty.tables.resize(2);
  EXPECT_EQ(fault_of(empty), "none");
}

TEST(CheckBatch, NamesABadIndex) {
  auto bad = sound_batch();
  bad.tables[0].indices[2] = 10;
  EXPECT_EQ(fault_of(bad), "table 0: index 10 in sample 1: must be between 0 and 9, the table has 10 rows");
  bad.tables[0].indices[2] = -1;
  EXPECT_EQ(fault_of(bad), "table 0: index -1 in sample 1: must be between 0 and 9, the table has 10 rows");
  bad = sound_batch();
  bad.tables[1].indices[0] = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(fault_of(bad),
            "table 1: index 9223372036854775807 in sample 0: must be between 0 and 4, the table has 5 rows");
}

TEST(CheckBatch, NamesABadOffset) {
  const std::string limit = ": offsets must start at 0, never descend, and not exceed the 3 indices";
  auto bad = sound_batch();
  bad.tables[0].offsets = {1, 2};
  EXPECT_EQ(fault_of(bad), "table 0: offset 1 of sample 0" + limit);
  bad.tables[0].offsets = {0, 4};
  EXPECT_EQ(fault_of(bad), "table 0: offset 4 of sample 1" + limit);
  bad.tables[0].offsets = {0, -1};
  EXPECT_EQ(fault_of(bad), "table 0: offset -1 of sample 1" + limit);
}

TEST(CheckBatch, NamesWrongNumbersOfThings) {
  auto bad = sound_batch();
  bad.tables.pop_back();
  EXPECT_EQ(fault_of(bad), "1 tables' bags: the model has 2 tables");
  bad = sound_batch();
  bad.tables[1].offsets.push_back(2);
  EXPECT_EQ(fault_of(bad), "table 1: 3 bags for 2 samples: every sample needs one bag");
  bad = sound_batch();
  bad.tables[0].weights = {1, 1, 1};
  EXPECT_EQ(fault_of(bad), "table 0: 3 per-sample weights: the table has none");
  bad = sound_batch();
  bad.tables[1].weights.clear();
  EXPECT_EQ(fault_of(bad), "table 1: no per-sample weights for 2 indices: the table needs one for each");
  bad = sound_batch();
  bad.tables[1].weights.push_back(1);
  EXPECT_EQ(fault_of(bad), "table 1: 3 per-sample weights for 2 indices: must be one for each");
  bad = sound_batch();
  bad.dense.pop_back();
  EXPECT_EQ(fault_of(bad), "1 dense values for 2 samples: must be 1 for each");
  bad = sound_batch();
  bad.classes.pop_back();
  EXPECT_EQ(fault_of(bad), "1 classes for 2 samples: must be one for each");
  bad = sound_batch();
  bad.classes.clear();
  bad.values = {1, 2};
  EXPECT_EQ(fault_of(bad), "2 target values for 2 samples: must be 3 for each");
  bad = sound_batch();
  bad.values = {1};
  EXPECT_EQ(fault_of(bad), "2 classes and 1 target values: must be one or the other");
  bad = sound_batch();
  bad.size = 0;
  EXPECT_EQ(fault_of(bad), "table 0: 2 bags for 0 samples: every sample needs one bag");
}

TEST(CheckBatch, NamesABadClass) {
  auto bad = sound_batch();
  bad.classes[1] = 3;
  EXPECT_EQ(fault_of(bad), "class 3 of sample 1: must be between 0 and 2");
  bad.classes = {-1, 0};
  EXPECT_EQ(fault_of(bad), "class -1 of sample 0: must be between 0 and 2");
}

TEST(Dataset, EveryBatchOfEveryDataSetIsSound) {
  for (const char* data : {"adult", "tutorial", "synthetic"}) {
    for (const char* loss : {"cross-entropy", "mse"}) {
      const auto job = parse_job({{"data", data}, {"loss", loss}, {"trainers", "3"}});
      ASSERT_TRUE(job.has_value()) << job.error().message;
      const auto opened = open_dataset(*job);
      ASSERT_TRUE(opened.has_value()) << opened.error().message;
      const auto& set = **opened;
      for (const std::uint64_t step : {std::uint64_t{0}, set.steps_per_epoch() - 1, set.steps_per_epoch() * 5 + 1}) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(check_batch(set.spec(), set.train_batch(step, rank).value()).value_or(""), "")
              << data << " " << loss;
        }
      }
      EXPECT_EQ(check_batch(set.spec(), set.test_batch(0, set.test_rows()).value()).value_or(""), "")
          << data << " " << loss;
      EXPECT_FALSE(set.start().has_value());
    }
  }
}

TEST(Dataset, UnknownDataAreRefused) {
  job job;
  job.data = "nothing";
  const auto opened = open_dataset(job);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().message, "--data nothing: unknown data set");
}

TEST(DatasetHolder, KeepsTheLastDataSetForWhoOpensItAgain) {
  const temporary_file rows("a,b\n1,0\n2,1\n3,0\n4,1\n");
  const auto open = [&](const char* seed) {
    const auto what = parse_job({{"data", "csv:" + rows.path()},
                                 {"columns", R"([{"name":"a","kind":"numeric"},{"name":"b","kind":"label"}])"},
                                 {"servers", "0"},
                                 {"trainers", "1"},
                                 {"batch-size", "2"},
                                 {"seed", seed}});
    EXPECT_TRUE(what) << what.error().message;
    auto opened = open_dataset(*what);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::weak_ptr<const dataset>(*opened);
  };
  EXPECT_TRUE(open("1").expired());
  std::weak_ptr<const dataset> second;
  {
    const dataset_holder holder;
    const auto first = open("1");
    EXPECT_FALSE(first.expired());
    EXPECT_EQ(open("1").lock(), first.lock());
    second = open("2");
    EXPECT_TRUE(first.expired());
    EXPECT_FALSE(second.expired());
  }
  EXPECT_TRUE(second.expired());
}

TEST(SharedWhileHeld, MakesOneObjectForAllHolders) {
  shared_while_held<std::string, int> shared;
  int made = 0;
  const auto make = [&made]() -> result<int> { return ++made; };
  auto first = shared.get("a", make);
  const auto second = shared.get("a", make);
  const auto other = shared.get("b", make);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(made, 2);
  const std::weak_ptr<const int> remembered = *first;
  first = nullptr;
  EXPECT_FALSE(remembered.expired());
}

TEST(SharedWhileHeld, MakesANewObjectAfterTheLastHolder) {
  shared_while_held<std::string, int> shared;
  int made = 0;
  const auto make = [&made]() -> result<int> { return ++made; };
  EXPECT_EQ(**shared.get("a", make), 1);
  EXPECT_EQ(**shared.get("a", make), 2);
}

TEST(SharedWhileHeld, ThreadsThatAskAtOnceShareOneObject) {
  shared_while_held<int, int> shared;
  std::atomic<int> made = 0;
  std::array<std::shared_ptr<const int>, 8> held;
  {
    std::vector<std::jthread> threads;
    for (auto& mine : held) {
      threads.emplace_back([&] { mine = *shared.get(0, [&made]() -> result<int> { return ++made; }); });
    }
  }
  EXPECT_EQ(made, 1);
  for (const auto& mine : held) EXPECT_EQ(mine, held.front());
}

TEST(SharedWhileHeld, DoesNotRememberAFault) {
  shared_while_held<std::string, int> shared;
  const auto failed = shared.get("a", []() -> result<int> { return bad_input("no"); });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "no");
  EXPECT_EQ(**shared.get("a", []() -> result<int> { return 7; }), 7);
}

}  // namespace
}  // namespace troupe::model::data_test
