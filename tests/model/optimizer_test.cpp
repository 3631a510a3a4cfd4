#include "model/optimizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "model/random.hpp"

namespace troupe::model::optimizer_test {
namespace {

using kernels::optimizer_kind;

optimizer_spec parsed(const std::string& text) {
  const auto spec = parse_optimizer(text, optimizer_use::table);
  EXPECT_TRUE(spec.has_value()) << text << ": " << (spec ? "" : spec.error().message);
  return spec.value_or(optimizer_spec{});
}

std::string refusal(const std::string& text, optimizer_use use = optimizer_use::dense) {
  const auto spec = parse_optimizer(text, use);
  EXPECT_FALSE(spec.has_value()) << text;
  return spec ? "" : spec.error().message;
}

TEST(Optimizer, NamesBringTheDefaultsOfPytorch) {
  EXPECT_EQ(parsed("sgd").options, optimizer_options(sgd_options{.momentum = 0, .weight_decay = 0, .nesterov = false}));
  const adagrad_options adagrad{.eps = 1e-10, .initial_accumulator_value = 0, .weight_decay = 0};
  EXPECT_EQ(parsed("adagrad").options, optimizer_options(adagrad));
  EXPECT_EQ(parsed("adam").options,
            optimizer_options(adam_options{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0}));
  EXPECT_EQ(parsed("rowwise-adagrad").options, optimizer_options(rowwise_adagrad_options{adagrad}));
}

TEST(Optimizer, LazyOnesAreSgdAndAdamThatLeaveRowsAlone) {
  for (const std::string options : {"", ":weight_decay=0.5"}) {
    EXPECT_EQ(*parsed("lazy-sgd" + options).as<sgd_options>(), *parsed("sgd" + options).as<sgd_options>());
    EXPECT_EQ(*parsed("lazy-adam" + options).as<adam_options>(), *parsed("adam" + options).as<adam_options>());
    for (const char* name : {"lazy-sgd", "lazy-adam"}) EXPECT_FALSE(visits_every_row(parsed(name + options)));
  }
}

TEST(Optimizer, OptionsAreRead) {
  EXPECT_EQ(parsed("sgd:momentum=0.9,nesterov=true,weight_decay=1e-4").options,
            optimizer_options(sgd_options{.momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}));
  EXPECT_EQ(parsed("adagrad:eps=1e-6,initial_accumulator_value=0.1,weight_decay=0.5").options,
            optimizer_options(adagrad_options{.eps = 1e-6, .initial_accumulator_value = 0.1, .weight_decay = 0.5}));
  EXPECT_EQ(parsed("adam:beta1=0.8,beta2=0.9,eps=0,weight_decay=0.01").options,
            optimizer_options(adam_options{.beta1 = 0.8, .beta2 = 0.9, .eps = 0, .weight_decay = 0.01}));
}

TEST(Optimizer, TextIsTheShortestThatReadsTheSame) {
  for (const char* text : {"sgd", "adagrad", "adam", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=true",
                           "adagrad:eps=1e-06", "adam:beta1=0.8,eps=1e-06", "rowwise-adagrad",
                           "rowwise-adagrad:eps=1e-06,initial_accumulator_value=0.5,weight_decay=0.25", "lazy-sgd",
                           "lazy-sgd:momentum=0.9,weight_decay=0.1,nesterov=true", "lazy-adam:beta2=0.9"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
  EXPECT_EQ(to_string(parsed("adam:eps=1e-8,beta1=0.9")), "adam");
}

TEST(Optimizer, RandomSpecsSurviveTheWayThroughText) {
  random_sequence random(1);
  for (int i = 0; i < 1000; ++i) {
    const sgd_options sgd{random.unit(), random.unit(), random.below(2) == 0};
    const adagrad_options adagrad{random.unit() * 1e-5, random.unit() * 10, random.unit()};
    const adam_options adam{random.unit(), random.unit(), random.unit() * 1e-5, random.unit()};
    const std::array<optimizer_options, 6> all{
        sgd, adagrad, adam, rowwise_adagrad_options{adagrad}, lazy_sgd_options{sgd}, lazy_adam_options{adam}};
    optimizer_spec spec;
    spec.options = all.at(random.below(all.size()));
    EXPECT_EQ(check_options(spec), std::nullopt);
    EXPECT_EQ(parsed(full_text(spec)), spec) << full_text(spec);
    ASSERT_EQ(parsed(to_string(spec)), spec) << to_string(spec);
  }
}

TEST(Optimizer, RefusesWithNameValueAndLimit) {
  EXPECT_EQ(refusal("sgdd"), "unknown optimizer sgdd; the nearest is sgd, and there are sgd, adagrad or adam");
  EXPECT_EQ(refusal("adamw"), "unknown optimizer adamw; the nearest is adam, and there are sgd, adagrad or adam");
  EXPECT_EQ(refusal("sgd:momentun=0.9"),
            "sgd has no option momentun; the nearest is momentum, and there are momentum, weight_decay or nesterov");
  EXPECT_EQ(refusal("sgd:momentum=-0.5"), "momentum must be between 0 and 1000000, not -0.5");
  EXPECT_EQ(refusal("sgd:momentum=nan"), "momentum must be between 0 and 1000000, not nan");
  EXPECT_EQ(refusal("adam:eps=inf"), "eps must be between 0 and 1000000, not inf");
  EXPECT_EQ(refusal("adam:beta1=1"), "beta1 must be at least 0 and below 1, not 1");
  EXPECT_EQ(refusal("adam:beta2=nan"), "beta2 must be at least 0 and below 1, not nan");
  EXPECT_EQ(refusal("adam:beta2=-0.1"), "beta2 must be at least 0 and below 1, not -0.1");
  EXPECT_EQ(refusal("adagrad:eps=1e-8x"), "eps must be a number, not 1e-8x");
  EXPECT_EQ(refusal("adagrad:eps=1e999"), "eps must be between 0 and 1000000, not inf");
  EXPECT_EQ(refusal("sgd:momentum=0.9,momentum=0.8"), "momentum is given twice");
  EXPECT_EQ(refusal("sgd:nesterov=yes,momentum=1"), "nesterov must be true or false, not yes");
  EXPECT_EQ(refusal("sgd:"), "option '' must be of the form key=value");
  EXPECT_EQ(refusal("sgd:momentum"), "option momentum must be of the form key=value");
  EXPECT_EQ(refusal("sgd:momentum="), "momentum must be a number, not ''");
  EXPECT_EQ(refusal(""), "unknown optimizer ''; the nearest is sgd, and there are sgd, adagrad or adam");
}

TEST(Optimizer, MessagesHaveAllOptions) {
  EXPECT_EQ(full_text(parsed("sgd")), "sgd:momentum=0,weight_decay=0");
  EXPECT_EQ(full_text(parsed("sgd:momentum=0.9,nesterov=true")), "sgd:momentum=0.9,weight_decay=0,nesterov=true");
  EXPECT_EQ(full_text(parsed("adagrad")), "adagrad:weight_decay=0,initial_accumulator_value=0,eps=1e-10");
  EXPECT_EQ(full_text(parsed("adam")), "adam:beta1=0.9,beta2=0.999,eps=1e-08,weight_decay=0");
}

TEST(Optimizer, OptionsOfAnotherOptimizerAreRefused) {
  for (const char* text : {"adam:momentum=0.9", "adagrad:beta1=0.9", "sgd:eps=1e-8", "adam:nesterov=true",
                           "sgd:initial_accumulator_value=1", "rowwise-adagrad:momentum=0.9", "lazy-adam:nesterov=true",
                           "lazy-sgd:eps=1e-8"}) {
    EXPECT_NE(refusal(text, optimizer_use::table).find("has no option"), std::string::npos) << text;
  }
}

TEST(Optimizer, NesterovNeedsMomentum) {
  EXPECT_EQ(refusal("sgd:nesterov=true"), "nesterov needs a momentum above 0, such as momentum=0.9");
  EXPECT_EQ(refusal("sgd:nesterov=true,momentum=0"), "nesterov needs a momentum above 0, such as momentum=0.9");
  EXPECT_FALSE(parsed("sgd:nesterov=false").as<sgd_options>()->nesterov);
}

TEST(Optimizer, ThoseOfTablesAreRefusedForDenseWeightsWithWhatToUseInstead) {
  EXPECT_EQ(refusal("rowwise-adagrad:eps=1"), "rowwise-adagrad is for the rows of tables only; use adagrad");
  EXPECT_EQ(refusal("lazy-sgd:momentum=0.9"), "lazy-sgd is for the rows of tables only; use sgd");
  EXPECT_EQ(refusal("lazy-adam"), "lazy-adam is for the rows of tables only; use adam");
  EXPECT_EQ(refusal("row-adagrad", optimizer_use::table),
            "unknown optimizer row-adagrad; the nearest is adagrad, and there are sgd, adagrad, adam, "
            "rowwise-adagrad, lazy-sgd or lazy-adam");
  EXPECT_EQ(refusal("lazy-sgd:nesterov=true", optimizer_use::table),
            "nesterov needs a momentum above 0, such as momentum=0.9");
}

// Computed by hand for beta1 = 0.9, beta2 = 0.99, lr = 0.1:
//   t = 1: 1 - 0.9 = 0.1, so lr / 0.1 = 1; sqrt(1 - 0.99) = 0.1.
//   t = 2: 1 - 0.81 = 0.19, so 0.1 / 0.19 = 0.526315789; sqrt(1 - 0.9801) = sqrt(0.0199) = 0.141067360.
TEST(Optimizer, AdamConstantsFollowTheStep) {
  auto adam = parsed("adam:beta2=0.99");
  adam.lr = 0.1;
  const auto first = constants_at(adam, 1);
  EXPECT_EQ(first.kind, optimizer_kind::adam);
  EXPECT_FLOAT_EQ(first.lr, 1.0F);
  EXPECT_FLOAT_EQ(first.bias_correction2_sqrt, 0.1F);
  EXPECT_EQ(first.beta1, 0.9F);
  EXPECT_EQ(first.beta2, 0.99F);
  EXPECT_EQ(first.one_minus_beta1, 0.1F);
  EXPECT_EQ(first.one_minus_beta2, 0.01F);
  EXPECT_EQ(first.eps, 1e-8F);
  const auto second = constants_at(adam, 2);
  EXPECT_FLOAT_EQ(second.lr, 0.526315789F);
  EXPECT_FLOAT_EQ(second.bias_correction2_sqrt, 0.141067360F);
  const auto late = constants_at(adam, 1'000'000);
  EXPECT_FLOAT_EQ(late.lr, 0.1F);
  EXPECT_FLOAT_EQ(late.bias_correction2_sqrt, 1.0F);
}

TEST(Optimizer, HasOneNameWithWhatHasTheSameState) {
  for (const auto& [text, rule] : {std::pair{"sgd:momentum=0.9", "sgd"},
                                   {"lazy-sgd:momentum=0.5", "sgd"},
                                   {"adagrad:eps=0.1", "adagrad"},
                                   {"rowwise-adagrad", "rowwise-adagrad"},
                                   {"adam", "adam"},
                                   {"lazy-adam", "adam"}})
    EXPECT_EQ(rule_of(parse_optimizer(text, optimizer_use::table).value()), rule) << text;
}

TEST(Optimizer, OtherConstantsStay) {
  auto sgd = parsed("sgd:momentum=0.9,nesterov=true,weight_decay=0.5");
  sgd.lr = 0.25;
  for (const std::uint64_t step : {1U, 1000U}) {
    const auto c = constants_at(sgd, step);
    EXPECT_EQ(c.kind, optimizer_kind::sgd);
    EXPECT_EQ(c.lr, 0.25F);
    EXPECT_EQ(c.momentum, 0.9F);
    EXPECT_EQ(c.weight_decay, 0.5F);
    EXPECT_TRUE(c.nesterov);
  }
  EXPECT_EQ(constants_at(parsed("adagrad"), 3).eps, 1e-10F);
}

// A warm-up of four steps: the factor is 0.75 in step 3, and 1 in step 9.
TEST(Optimizer, ScheduleMultipliesTheLearningRateBeforeRounding) {
  auto sgd = parsed("sgd");
  sgd.lr = 0.1;
  sgd.schedule = *parse_lr_schedule("warmup:4");
  EXPECT_EQ(constants_at(sgd, 3).lr, static_cast<float>(0.1 * 0.75));
  EXPECT_EQ(constants_at(sgd, 9).lr, 0.1F);
  auto adam = parsed("adam:beta1=0.5");
  adam.lr = 0.1;
  adam.schedule = sgd.schedule;
  EXPECT_EQ(constants_at(adam, 3).lr, static_cast<float>(0.1 * 0.75 / 0.875));
}

TEST(Optimizer, StateAndVisits) {
  struct expectation {
    const char* text;
    int buffers;
    std::size_t columns;
    float initial;
    bool every_row;
  };
  for (const auto& [text, buffers, columns, initial, every_row] :
       {expectation{"sgd", 0, 7, 0, false}, expectation{"sgd:momentum=0.9", 1, 7, 0, true},
        expectation{"sgd:weight_decay=0.1", 0, 7, 0, true}, expectation{"adagrad", 1, 7, 0, false},
        expectation{"adagrad:initial_accumulator_value=0.5", 1, 7, 0.5F, false},
        expectation{"adagrad:weight_decay=0.1", 1, 7, 0, true}, expectation{"adam", 2, 7, 0, true},
        expectation{"rowwise-adagrad:initial_accumulator_value=0.5,weight_decay=0.1", 1, 1, 0.5F, false},
        expectation{"lazy-sgd:momentum=0.9,weight_decay=0.1", 1, 7, 0, false},
        expectation{"lazy-adam:weight_decay=0.1", 2, 7, 0, false}}) {
    EXPECT_EQ(state_buffers(parsed(text)), buffers) << text;
    EXPECT_EQ(state_columns(parsed(text), 7), columns) << text;
    EXPECT_EQ(initial_state(parsed(text)), initial) << text;
    EXPECT_EQ(visits_every_row(parsed(text)), every_row) << text;
  }
}

}  // namespace
}  // namespace troupe::model::optimizer_test
