// The help of a program that adds layers, losses, metrics, optimizers and data sets to jobs.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/added_help.hpp"
#include "apps/subcommand.hpp"
#include "nn/own_data.hpp"
#include "nn/own_layer.hpp"
#include "nn/own_loss.hpp"
#include "nn/own_metric.hpp"
#include "nn/own_optimizer.hpp"

namespace troupe::apps::added_help_test {
namespace {

struct band_options {
  static constexpr const char* kind = "band";
  std::size_t width = 0;
  double scale = 1.5;
  bool wraps = false;

  static const nn::option_fields<band_options>& fields() {
    static const auto all =
        nn::option_fields<band_options>()
            .whole("width", &band_options::width, 1, 9)
            .real("scale", &band_options::scale, "a positive number", [](double x) { return x > 0; })
            .truth("wraps", &band_options::wraps);
    return all;
  }
};

/// Returns its input.
class band final : public nn::module {
 public:
  using options = band_options;
  explicit band(const options& /*chosen*/) {}

  std::string type() const override { return "band"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i];
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    for (std::size_t i = 0; i < numbers.output.size(); ++i) of.input[i] = of.output[i];
  }
};

struct slow_options {
  double rate = 0.25;

  static const nn::option_fields<slow_options>& fields() {
    static const auto all = nn::option_fields<slow_options>().real("rate", &slow_options::rate, "between 0 and 1",
                                                                   [](double x) { return x >= 0 && x <= 1; });
    return all;
  }
};

class slow final : public nn::own_optimizer {
 public:
  using options = slow_options;
  explicit slow(const options& /*chosen*/) {}
  void update(const nn::weight_block& /*of*/) const override {}
};

double nothing_lost(const nn::loss_sample& /*sample*/) { return 0; }
double nothing_measured(const nn::metric_sample& /*row*/) { return 0; }

/// Adds layers, losses, metrics, optimizers and data sets once in a process. Requires: nothing was added before.
void add_all() {
  static const bool was_empty = [] {
    const bool is_empty = added_help().empty();
    nn::add_layer<band>("band");
    nn::add_loss("help-classes", nn::loss_form::classes, nothing_lost);
    nn::add_loss("help-values", nn::loss_form::values, nothing_lost);
    nn::add_metric("help-logits", nn::loss_form::logits, nothing_measured);
    nn::add_optimizer<slow>("slow");
    nn::add_optimizer("still", 0, [](const nn::weight_block& /*of*/) {});
    nn::add_data("films", [](const std::string& /*argument*/, std::uint64_t /*seed*/) {
      return std::shared_ptr<const nn::own_data>();
    });
    return is_empty;
  }();
  EXPECT_TRUE(was_empty);
}

constexpr const char* section =
    "Added by this program:\n"
    "  band                        a layer\n"
    "    width                     a whole number between 1 and 9 (required)\n"
    "    scale                     a positive number (default: 1.5)\n"
    "    wraps                     true or false (default: false)\n"
    "  help-classes                a loss: an output for each class\n"
    "  help-values                 a loss: an output for each target\n"
    "  help-logits                 a metric: one output, the logit of class 1\n"
    "  slow                        an optimizer\n"
    "    rate                      between 0 and 1 (default: 0.25)\n"
    "  still                       an optimizer\n"
    "  films                       a data set\n"
    "\n";

TEST(AddedHelp, ListsNamesWithOptionsLimitsAndDefaults) {
  add_all();
  EXPECT_EQ(added_help(), section);
}

TEST(AddedHelp, IsPartOfTheHelpOfTrain) {
  add_all();
  CLI::App program;
  program.set_help_flag("-h,--help", "this help");
  const std::string help = add_train(program).app->help();
  EXPECT_NE(help.find(std::string("\n") + section + "Examples:\n"), std::string::npos) << help;
}

}  // namespace
}  // namespace troupe::apps::added_help_test
