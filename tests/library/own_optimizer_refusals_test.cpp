// Optimizers that a program adds: how they are chosen and printed, and errors by name.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "actors/common/device_advice.hpp"
#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "tests/expect_finds.hpp"
#include "tests/kernels/needs_device.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_optimizers.hpp"
#include "tests/model/parsed_job.hpp"

namespace troupe::own_optimizer_refusals_test {
namespace {

// -- settings -------------------------------------------------------------------------------

TEST(OwnOptimizerChoices, AreSettingsLikeTheOthers) {
  test::add_own_optimizers();
  for (const char* text : {"own-lion", "own-lion:beta1=0.5", "own-lion:weight_decay=0.25,flipped=true,power=3",
                           "own-needy:high=3,low=2", "own-steps"}) {
    EXPECT_EQ(model::to_string(test::spec_of(text)), text);
    EXPECT_EQ(model::full_text(test::spec_of(text)), text);
  }
  EXPECT_EQ(model::to_string(test::spec_of("own-lion:beta2=0.99,power=1")), "own-lion") << "defaults";
  EXPECT_EQ(model::rule_of(test::spec_of("own-lion:beta1=0.5")), "own-lion");
  EXPECT_EQ(test::spec_of("own-lion:beta1=0.5"), test::spec_of("own-lion:beta2=0.99,beta1=0.5"));
  EXPECT_EQ(test::spec_of("own-needy:low=2,high=3"), test::spec_of("own-needy:high=3,low=2"));
  EXPECT_FALSE(test::spec_of("own-lion:beta1=0.5") == test::spec_of("own-lion"));
  EXPECT_FALSE(test::spec_of("own-steps") == test::spec_of("own-descent"));
  const auto job = model::parsed(test::short_job({{"dense-optimizer", "own-lion:beta1=0.5"}}));
  EXPECT_EQ(*model::value_of(model::to_settings(job), "dense-optimizer"), "own-lion:beta1=0.5");
  EXPECT_EQ(model::parsed(model::to_settings(job)), job);
}

std::string fault_of(const std::string& text) {
  const auto spec = model::parse_optimizer(text, model::optimizer_use::dense);
  return spec ? "no error" : spec.error().message;
}

TEST(OwnOptimizerChoices, RefuseWhatTheirOptionsCannotBe) {
  test::add_own_optimizers();
  EXPECT_EQ(fault_of("own-lion:beta=0.5"),
            "own-lion has no option beta; the nearest is beta1, and there are beta1, beta2, weight_decay, flipped or "
            "power");
  EXPECT_EQ(fault_of("own-lion:beta1=1"), "beta1 must be at least 0 and below 1, not 1");
  EXPECT_EQ(fault_of("own-lion:beta1=x"), "beta1 must be at least 0 and below 1, not x");
  EXPECT_EQ(fault_of("own-lion:beta1=nan"), "beta1 must be at least 0 and below 1, not nan");
  EXPECT_EQ(fault_of("own-lion:flipped=1"), "flipped must be true or false, not 1");
  EXPECT_EQ(fault_of("own-lion:power=1.5"), "power must be a whole number between 1 and 9, not 1.5");
  EXPECT_EQ(fault_of("own-lion:beta1=0.5,beta1=0.5"), "beta1 is given twice");
  EXPECT_EQ(fault_of("own-lion:beta1"), "option beta1 must be of the form key=value");
  EXPECT_EQ(fault_of("own-steps:lr=1"), "own-steps has no option lr; it has none");
  EXPECT_EQ(fault_of("own-needy:high=3"),
            "own-needy needs the option low, which must be a whole number between 1 and 9 that is below high");
  EXPECT_EQ(fault_of("own-needy:high=3,low=3"), "low must be a whole number between 1 and 9 that is below high, not 3");
  EXPECT_FINDS(fault_of("own-loin"), "unknown optimizer own-loin; the nearest is own-lion, and there are sgd, adagrad");
  EXPECT_FINDS(model::refusal(test::short_job({{"sparse-optimizer", "own-loin"}})), "own-lion");
}

TEST(OwnOptimizerChoices, RefuseWhatIsNotForEachWeight) {
  test::add_own_optimizers();
  EXPECT_EQ(fault_of("own-cut"),
            "the optimizer own-cut: weights in two blocks come out otherwise than in one; update each weight by what "
            "is at its index only");
  EXPECT_EQ(fault_of("own-many"), "the optimizer own-many: 3 state buffers: must be 0, 1 or 2");
}

TEST(OwnOptimizerChoices, NeedANameOfTheirOwn) {
  test::add_own_optimizers();
  const auto adding = [](const std::string& name) {
    return test::error_of([&] { nn::add_optimizer(name, 0, test::go_down); });
  };
  for (const char* name :
       {"sgd", "adagrad", "adam", "rowwise-adagrad", "lazy-sgd", "lazy-adam", "own-lion", "own-descent"})
    EXPECT_EQ(adding(name), "add_optimizer: there is an optimizer '" + std::string(name) + "' already");
  for (const char* name : {"Lion", "", "2-lions", "li_on", "li:on"})
    EXPECT_FINDS(adding(name), "must be of lower-case letters, digits and '-', a letter first") << name;
  EXPECT_EQ(test::error_of([] { nn::add_optimizer("nothing", 0, {}); }), "add_optimizer: nothing has no function");
  EXPECT_EQ(test::error_of([] { nn::add_optimizer<test::own_nameless>("own-nameless"); }),
            "add_optimizer: the option 'a rate' of own-nameless must be of lower-case letters, digits and '_', a "
            "letter first");
}

// -- errors ---------------------------------------------------------------------------------

TEST(OwnOptimizerChoices, EndARunByWhatTheyThrow) {
  test::add_own_optimizers();
  for (const auto& [setting, who] : {std::pair{"dense-optimizer", "trainer "}, {"sparse-optimizer", "server "}}) {
    const auto ended = nodes::run_job(model::parsed(test::short_job({{setting, "own-throws"}})), {}, nullptr);
    ASSERT_FALSE(ended) << setting;
    EXPECT_EQ(ended.error().kind, fault_kind::run) << setting;
    EXPECT_FINDS(ended.error().message, who);
    EXPECT_FINDS(ended.error().message, "the optimizer own-throws: no third step");
  }
}

task<> step_thrice(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 1));
  optimizer_choice choice;
  choice.name = "own-throws";
  distributed_optimizer optimizer(choice, model);
  const tensor x = tensor::of<float>({1, 2}, std::vector<float>{1, 2});
  const tensor y = tensor::of<float>({1, 1}, std::vector<float>{3});
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    co_await context.backward(nn::mse_loss(context, model(context, x), y));
    co_await optimizer.step(context);
  }
}

TEST(OwnOptimizerChoices, EndAProgramByWhatTheyThrow) {
  test::add_own_optimizers();
  test::made_cluster cluster;
  EXPECT_FINDS(test::error_of([&] { cluster.run(2, step_thrice); }), "the optimizer own-throws: no third step");
}

TEST(OwnOptimizerChoices, ComputeOnTheProcessor) {
  test::add_own_optimizers();
  const auto advice = [](const char* setting) {
    return actors::advice_for(model::parsed(test::short_job({{setting, "own-lion"}, {"batch-size", "100000"}})));
  };
  EXPECT_FALSE(advice("dense-optimizer").on_devices);
  EXPECT_EQ(advice("dense-optimizer").reason, "--dense-optimizer own-lion computes on the processor");
  EXPECT_FALSE(advice("sparse-optimizer").on_devices);
  EXPECT_EQ(advice("sparse-optimizer").reason, "--sparse-optimizer own-lion computes on the processor");
}

// -- on a CUDA device -----------------------------------------------------------------------

class OwnOptimizerChoicesGpu : public needs_device {
 protected:
  void SetUp() override {
    needs_device::SetUp();
    test::add_own_optimizers();
  }
  static std::string job_error(const char* setting, bool servers) {
    nodes::run_options options;
    options.devices.numbers = {0};
    options.devices.trainers = true;
    options.devices.servers = servers;
    const auto ended = nodes::run_job(model::parsed(test::short_job({{setting, "own-lion"}})), options, nullptr);
    return ended ? "no error" : ended.error().message;
  }
};

TEST_F(OwnOptimizerChoicesGpu, AreRefusedByNameInJobs) {
  EXPECT_FINDS(job_error("dense-optimizer", false),
               "--device cuda: --dense-optimizer own-lion computes on the processor; use --device cpu");
  EXPECT_FINDS(job_error("sparse-optimizer", true),
               "the optimizer own-lion computes on the processor, not on CUDA device 0; use --server-device cpu");
  EXPECT_EQ(job_error("sparse-optimizer", false), "no error") << "tables are on the processor";
}

task<> choose_for(trainer me, remote_module<nn::embedding_bag> table, remote_module<nn::linear> far, bool here) {
  auto model = me.data_parallel(nn::linear(2, 1));
  optimizer_choice choice;
  choice.name = "own-lion";
  if (here) {
    distributed_optimizer refused(choice, model);
  } else {
    distributed_optimizer optimizer(choice, table, far);
    auto context = me.new_context();
    co_await optimizer.step(context);
  }
}

TEST_F(OwnOptimizerChoicesGpu, AreRefusedByNameInPrograms) {
  const auto error_with = [](std::vector<std::string> options, bool here) {
    test::made_cluster cluster(std::move(options));
    const auto table = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 5, .embedding_dim = 2});
    const auto far = cluster.server(0).make<nn::linear>({.in_features = 2, .out_features = 1});
    return test::error_of([&] { cluster.run(1, choose_for, table, far, here); });
  };
  EXPECT_FINDS(error_with({"--device", "cuda", "--server-device", "cpu"}, true),
               "linear: the optimizer own-lion computes on the processor, not on CUDA device 0; use --device cpu");
  EXPECT_FINDS(error_with({"--server-device", "cuda"}, false),
               "the optimizer own-lion computes on the processor, not on CUDA device 0; use --server-device cpu");
  EXPECT_EQ(error_with({"--device", "cuda", "--server-device", "cpu"}, false), "no error");
}

}  // namespace
}  // namespace troupe::own_optimizer_refusals_test
