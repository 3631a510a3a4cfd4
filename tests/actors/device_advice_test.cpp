// The choice of `--device auto`: the edges of its rule, with multiplications counted by hand, and which actors follow
// the choice.

#include "actors/common/device_advice.hpp"

#include <gtest/gtest.h>

#include <map>

#include "model/checkpoint/resume.hpp"
#include "model/hybrid.hpp"
#include "tests/model/parsed_job.hpp"

namespace troupe::actors::device_advice_test {
namespace {

using model::parsed;
using model::setting;

TEST(DeviceAdvice, MultiplicationsAreThreeForEachDenseWeightAndOneForEachNumberOfABag) {
  // Adult: 8 tables of width 8 and 6 dense features make 70 inputs: 71 * 64 + 65 * 32 + 33 = 6657 dense weights.
  const auto count = [](const model::job& what) { return step_multiplications(what, *model::spec_of(what)); };
  EXPECT_EQ(count(parsed({})), 128.0 * (3 * 6657 + 8 * 8));
  // 65 * 512 + 513 * 256 + 257 = 164865 dense weights.
  EXPECT_EQ(count(parsed({{"data", "synthetic"},
                          {"batch-size", "1024"},
                          {"hidden", "512,256"},
                          {"dim", "64"},
                          {"bag", "26"},
                          {"loss", "bce-logits"}})),
            1024.0 * (3 * 164865 + 26 * 64));
  // The tutorial: 17 * 8 dense weights, bags of 1 to 10 indices.
  EXPECT_EQ(count(parsed({{"data", "tutorial"}})), 7 * (3 * 136 + 5.5 * 16));
}

TEST(DeviceAdvice, ADeviceIsWorthItFromTheLimitOn) {
  model::job one;
  one.batch_size = 1;
  one.loss = model::loss_kind::mse;
  // A weight and a bias: 6 multiplications. Rows need as many as there are indices.
  const auto advice = [&](double indices) {
    return advice_for(one, {{{10, 1, kernels::pooling::sum, false, indices}}, 0, 1});
  };
  EXPECT_TRUE(advice(33'554'432 - 6).on_devices);
  EXPECT_FALSE(advice(33'554'432 - 7).on_devices);
}

TEST(DeviceAdvice, TheLimitIsCrossedByAdultsBatches) {
  // 20035 multiplications per sample: 2^25 / 20035 is between 1674 and 1675.
  EXPECT_FALSE(advice_for(parsed({{"batch-size", "1674"}})).on_devices);
  EXPECT_TRUE(advice_for(parsed({{"batch-size", "1675"}})).on_devices);
}

TEST(DeviceAdvice, TheReasonHasBothFigures) {
  EXPECT_EQ(advice_for(parsed({})).reason,
            "2.6 million multiplications in a trainer's step, a CUDA device is worth it from 33.6 million on; --device "
            "cuda computes there all the same");
  EXPECT_EQ(advice_for(parsed({{"batch-size", "4096"}})).reason,
            "82.1 million multiplications in a trainer's step, a CUDA device is worth it from 33.6 million on");
  EXPECT_EQ(advice_for(parsed({{"data", "tutorial"}})).reason.find("under 0.1 million multiplications"), 0U);
}

TEST(DeviceAdvice, APrecisionThatOnlyDevicesHaveNeedsThem) {
  for (const char* precision : {"tf32", "bf16"})
    EXPECT_TRUE(advice_for(parsed({{"matmul-precision", precision}})).on_devices) << precision;
}

TEST(DeviceAdvice, AReferenceRunHasNone) {
  model::job what;
  what.data = "replay:run.safetensors";
  EXPECT_EQ(advice_for(what).reason, "");
}

TEST(DeviceAdvice, AJobTellsTheShapesOfItsDataAsTheDataDo) {
  for (const std::vector<setting>& given :
       {std::vector<setting>{}, std::vector<setting>{{"data", "tutorial"}},
        std::vector<setting>{{"data", "synthetic"}, {"tables", "3"}, {"bag", "5"}, {"rows", "10"}}}) {
    const model::job what = parsed(given);
    const auto told = *model::spec_of(what);
    const auto data = model::open_dataset(what);
    ASSERT_TRUE(data.has_value()) << what.data;
    const model::data_spec& real = (*data)->spec();
    EXPECT_EQ(told.dense_features, real.dense_features) << what.data;
    EXPECT_EQ(told.outputs, real.outputs) << what.data;
    ASSERT_EQ(told.tables.size(), real.tables.size()) << what.data;
    for (std::size_t table = 0; table < told.tables.size(); ++table) {
      EXPECT_EQ(told.tables[table].dim, real.tables[table].dim) << what.data;
      EXPECT_EQ(told.tables[table].indices_per_sample, real.tables[table].indices_per_sample) << what.data;
    }
  }
}

TEST(DeviceAdvice, TheTutorialsStepsHaveAboutSoManySamples) {
  const model::job what = parsed({{"data", "tutorial"}});
  const auto data = model::open_dataset(what);
  ASSERT_TRUE(data.has_value());
  constexpr std::uint64_t steps = 2000;
  double samples = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto drawn = (*data)->train_batch(step, 0);
    ASSERT_TRUE(drawn.has_value());
    samples += static_cast<double>(drawn->size);
  }
  EXPECT_NEAR(samples / steps, model::samples_per_step(what), 0.25);
}

TEST(DeviceAdvice, AResumedRunGetsThatOfTheRunBefore) {
  const std::map<std::string_view, const char*> others = {
      {"servers", "3"},    {"table-split", "columns"}, {"epochs", "9"},    {"steps", "77"},
      {"eval-every", "0"}, {"bucket-mib", "1"},        {"metrics", "none"}};
  for (const std::string_view name : model::settings_free_on_resume) {
    // Another precision or parts of a network may need another choice of device.
    if (name == "matmul-precision" || name == "pipeline" || name == "schedule" || name == "stages" ||
        name == "tensor-parallel")
      continue;
    ASSERT_TRUE(others.contains(name)) << name;
    for (const char* batch : {"1674", "1675"})
      EXPECT_EQ(advice_for(parsed({{"batch-size", batch}, {std::string(name), others.at(name)}})).reason,
                advice_for(parsed({{"batch-size", batch}})).reason)
          << name;
  }
}

// -- which actors follow -------------------------------------------------------------------

compute_devices chosen(bool trainers_by_default, bool servers_by_default) {
  compute_devices devices;
  devices.numbers = {0, 1};
  devices.trainers = devices.servers = true;
  devices.trainers_by_default = trainers_by_default;
  devices.servers_by_default = servers_by_default;
  return devices;
}

TEST(DeviceAdvice, ThoseByDefaultFollowIt) {
  compute_devices all = chosen(true, true);
  all.follow({true, "large"});
  EXPECT_TRUE(all.trainers && all.servers);
  EXPECT_EQ(describe(all, 1, 1), "1 trainer on CUDA device 0; 1 server on CUDA device 0; as of --device auto: large");
  all.follow({false, "small"});
  EXPECT_FALSE(all.trainers || all.servers);
  EXPECT_TRUE(all.numbers.empty());
  EXPECT_EQ(describe(all, 1, 1), "computing on the processor, as of --device auto: small");
}

TEST(DeviceAdvice, WhoWasAskedForStays) {
  compute_devices asked = chosen(false, false);
  asked.follow({false, "small"});
  EXPECT_TRUE(asked.trainers && asked.servers);
  EXPECT_EQ(describe(asked, 1, 1), "1 trainer on CUDA device 0; 1 server on CUDA device 0");

  compute_devices tables = chosen(true, false);
  tables.follow({false, "small"});
  EXPECT_FALSE(tables.trainers);
  EXPECT_TRUE(tables.servers);
  EXPECT_EQ(tables.numbers, (std::vector<int>{0, 1}));
  EXPECT_EQ(describe(tables, 1, 1),
            "1 server on CUDA device 0; trainers compute on the processor, as of --device auto: small");
}

TEST(DeviceAdvice, NoAdviceChangesNothing) {
  compute_devices all = chosen(true, true);
  all.follow({});
  EXPECT_TRUE(all.trainers && all.servers);
  EXPECT_EQ(all.reason, "");
}

}  // namespace
}  // namespace troupe::actors::device_advice_test
