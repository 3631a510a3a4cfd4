// Users' descriptions of layers: reading, writing, and refusals with their error texts.

#include "nn/layer_spec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "nn/option_fields.hpp"

namespace troupe::nn::layer_spec_test {
namespace {

std::vector<layer_spec> read(const std::string& text) {
  const auto made = parse_layers(text);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(std::vector<layer_spec>{});
}

template <class T>
std::string fault_of(const result<T>& made) {
  EXPECT_FALSE(made.has_value());
  if (made) return "";
  EXPECT_EQ(made.error().kind, fault_kind::input);
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
  return made.error().message;
}

std::string refusal(const std::string& text) { return fault_of(parse_layers(text)); }

// Returns the error for the second layer, without its name.
std::string refusal_of(const std::string& kind, const std::string& options) {
  const auto message = refusal(R"([{"kind": "relu"}, {"kind": ")" + kind + "\"" + options + "}]");
  const std::string start = "layer 1 (" + kind + "): ";
  EXPECT_EQ(message.substr(0, start.size()), start);
  return message.substr(std::min(start.size(), message.size()));
}

const std::string all_kinds = [] {
  std::vector<std::string> names;
  all_layers::for_each([&]<class Layer>() { names.emplace_back(Layer::options::kind); });
  return alternatives(names);
}();

TEST(LayerSpec, OptionsReachTheirFields) {
  const auto layers = read(R"([
      {"kind": "linear", "out": 65536, "bias": false},
      {"kind": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2, "padding": 1, "bias": false},
      {"kind": "conv2d", "groups": 4, "out_channels": 8, "kernel": 3, "dilation": 2},
      {"kind": "max_pool2d", "kernel": 3, "stride": 2},
      {"kind": "batch_norm", "eps": 0.001, "momentum": 1, "scale": false, "synchronized": true},
      {"kind": "layer_norm", "eps": 1e-6}, {"kind": "dropout", "rate": 0.25},
      {"kind": "low_rank_cross", "rank": 4, "layers": 3},
      {"kind": "residual", "layers": [{"kind": "gelu"}, {"kind": "residual", "layers": [{"kind": "relu"}]}]},
      {"kind": "lstm", "hidden": 7, "steps": 5, "last": true}])");
  EXPECT_EQ(layers, (std::vector<layer_spec>{
                        {linear::options{.out_features = 65536, .bias = false}},
                        {conv2d::options{.out_channels = 8, .kernel = 3, .stride = 2, .padding = 1, .bias = false}},
                        {conv2d::options{.out_channels = 8, .kernel = 3, .dilation = 2, .groups = 4}},
                        {max_pool2d::options{.kernel = 3, .stride = 2}},
                        {batch_norm::options{.eps = 0.001, .momentum = 1, .scale = false, .synchronized = true}},
                        {layer_norm::options{.eps = 1e-6}},
                        {dropout::options{.rate = 0.25}},
                        {low_rank_cross::options{.rank = 4, .layers = 3}},
                        {residual::options{{{gelu::options{}}, {residual::options{{{relu::options{}}}}}}}},
                        {lstm::options{.hidden = 7, .steps = 5, .last = true}}}));
}

TEST(LayerSpec, OptionsThatAreLeftOutHaveDefaults) {
  const auto layers = read(R"([{"kind": "linear", "out": 2}, {"kind": "conv2d", "out_channels": 1, "kernel": 2},
      {"kind": "avg_pool2d", "kernel": 2}, {"kind": "batch_norm"}, {"kind": "layer_norm"}])");
  ASSERT_EQ(layers.size(), 5U);
  EXPECT_TRUE(layers[0].as<linear>()->bias);
  EXPECT_EQ(layers[1].as<conv2d>()->stride, 1U);
  EXPECT_EQ(layers[1].as<conv2d>()->padding, 0U);
  EXPECT_TRUE(layers[1].as<conv2d>()->bias);
  EXPECT_EQ(layers[2].as<avg_pool2d>()->stride, 0U) << "the kernel's size";
  EXPECT_EQ(layers[3].as<batch_norm>()->eps, 1e-5);
  EXPECT_EQ(layers[3].as<batch_norm>()->momentum, 0.1);
  EXPECT_TRUE(layers[3].as<batch_norm>()->scale);
  EXPECT_FALSE(layers[3].as<batch_norm>()->synchronized);
  EXPECT_EQ(layers[4].as<layer_norm>()->eps, 1e-5);
  EXPECT_TRUE(read("").empty());
  EXPECT_TRUE(read("[]").empty());
}

// The written form: `kind` first, and no options with default values.
TEST(LayerSpec, WhatIsWrittenIsReadAsTheSame) {
  for (const char* const text : {
           R"([])",
           R"([{"kind":"linear","out":3},{"kind":"linear","out":1,"bias":false}])",
           R"([{"kind":"relu"},{"kind":"gelu"},{"kind":"flatten"},{"kind":"global_avg_pool2d"}])",
           R"([{"kind":"conv2d","out_channels":6,"kernel":5}])",
           R"([{"kind":"conv2d","out_channels":6,"kernel":5,"stride":2,"padding":1024,"bias":false}])",
           R"([{"kind":"conv2d","out_channels":6,"kernel":5,"dilation":3,"groups":2}])",
           R"([{"kind":"max_pool2d","kernel":2},{"kind":"max_pool2d","kernel":2,"stride":1}])",
           R"([{"kind":"avg_pool2d","kernel":2},{"kind":"avg_pool2d","kernel":2,"stride":3}])",
           R"([{"kind":"batch_norm"},{"kind":"batch_norm","eps":1E-3,"momentum":3E-1,"scale":false}])",
           R"([{"kind":"batch_norm","synchronized":true}])",
           R"([{"kind":"layer_norm"},{"kind":"layer_norm","eps":1E-12}])",
           R"([{"kind":"dropout","rate":0E0},{"kind":"dropout","rate":1E-1},{"kind":"dropout","rate":7.5E-1}])",
           R"([{"kind":"low_rank_cross","rank":512,"layers":3}])",
           R"([{"kind":"lstm","hidden":7},{"kind":"lstm","hidden":65536,"steps":9,"last":true}])",
           R"([{"kind":"embedding","rows":16777216,"dim":8}])",
           R"([{"kind":"embedding","rows":2,"dim":8,"positions":9,"scale":2.55E2}])",
           R"([{"kind":"multi_head_attention","heads":2}])",
           R"([{"kind":"multi_head_attention","heads":1,"causal":true,"steps":3}])",
           R"([{"kind":"residual","layers":[{"kind":"relu"},{"kind":"residual","layers":[{"kind":"gelu"}]}]}])",
       }) {
    const auto layers = read(text);
    EXPECT_EQ(to_json(layers), text);
    EXPECT_EQ(read(to_json(layers)), layers);
  }
}

TEST(LayerSpec, DefaultsMayBeWritten) {
  EXPECT_EQ(to_json(read(R"([{"kind": "batch_norm", "eps": 0.00001, "momentum": 0.1, "scale": true},
                             {"kind": "conv2d", "kernel": 1, "out_channels": 2, "padding": 0, "stride": 1,
                              "dilation": 1, "groups": 1}])")),
            R"([{"kind":"batch_norm"},{"kind":"conv2d","out_channels":2,"kernel":1}])");
}

TEST(LayerSpec, NumbersOfManyDigitsAreReadTheSameAgain) {
  for (const char* const rate :
       {"0.74674522177278346", "0.47108727470238909", "0.99595401502832193", "0.3333333333333333"}) {
    const auto layers = read(std::string(R"([{"kind": "dropout", "rate": )") + rate + "}]");
    EXPECT_NEAR(layers.at(0).as<dropout>()->rate, std::stod(rate), 1e-15);
    EXPECT_EQ(read(to_json(layers)), layers) << rate;
  }
}

TEST(LayerSpec, KeysAreKindAndAllOptionsOnce) {
  const std::vector<std::string>& keys = layer_keys();
  EXPECT_EQ(keys.front(), "kind");
  std::vector<std::string> sorted = keys;
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
  all_layers::for_each([&]<class Layer>() {
    for (const auto& field : fields_of<typename Layer::options>())
      EXPECT_NE(std::ranges::find(keys, field.name), keys.end()) << Layer::options::kind << ": " << field.name;
  });
  EXPECT_NE(std::ranges::find(keys, "layers"), keys.end());
}

TEST(LayerSpec, OptionsForPeople) {
  const auto layers = read(R"([{"kind": "relu"}, {"kind": "conv2d", "out_channels": 8, "kernel": 3, "bias": false},
      {"kind": "residual", "layers": [{"kind": "linear", "out": 2}, {"kind": "relu"}]},
      {"kind": "batch_norm", "eps": 0.001}])");
  EXPECT_EQ(options_text(layers.at(0)), "");
  EXPECT_EQ(options_text(layers.at(1)), "out_channels 8, kernel 3, bias false");
  EXPECT_EQ(options_text(layers.at(2)), "linear, relu");
  EXPECT_EQ(options_text(layers.at(3)), "eps 0.001");
}

TEST(LayerSpec, WhatIsNoListOfObjectsIsRefused) {
  EXPECT_EQ(refusal("[{"), "incomplete JSON at byte 2; must be a JSON array of objects");
  EXPECT_EQ(refusal(R"([{"kind": "residual", "layers": [{"kind": "linear", "out": 2, "out": 3}]}])"),
            "key out of [0].layers[0] is given twice, at byte 66; must be a JSON array of objects");
  EXPECT_EQ(refusal("{}"), "must be a JSON array of objects");
  EXPECT_EQ(refusal(R"([{"kind": "relu"}, 3])"), "layer 1: 3: must be an object");
  std::string many = R"([{"kind":"relu"})";
  for (int i = 0; i < 1000; ++i) many += R"(,{"kind":"relu"})";
  EXPECT_EQ(refusal(many + "]"), "has 1001 layers; must be at most 1000");
}

TEST(LayerSpec, UnknownKindsAreRefused) {
  EXPECT_EQ(refusal("[{}]"), "layer 0: kind is missing: must be " + all_kinds);
  EXPECT_EQ(refusal(R"([{"kind": 3}])"), "layer 0: kind 3: must be " + all_kinds);
  EXPECT_EQ(refusal(R"([{"kind": "relu"}, {"kind": "conv"}])"),
            "layer 1: kind conv: unknown; the nearest is conv2d, and there are " + all_kinds);
}

TEST(LayerSpec, UnknownOptionsAndThoseOfOtherKindsAreRefused) {
  EXPECT_EQ(refusal_of("linear", R"(, "out": 3, "biass": true)"),
            "biass: unknown option; the nearest is bias, and there are out or bias");
  EXPECT_EQ(refusal_of("linear", R"(, "out": 3, "rate": 0.1)"), "rate: linear has no such option; it has out or bias");
  EXPECT_EQ(refusal_of("lstm", R"(, "hidden": 3, "layers": 2)"),
            "layers: lstm has no such option; it has hidden, steps or last");
  EXPECT_EQ(refusal_of("relu", R"(, "layers": 2)"), "layers: relu has no such option; it has none");
  EXPECT_EQ(refusal_of("residual", R"(, "out": 2)"), "out: residual has no such option; it has layers");
  EXPECT_EQ(refusal_of("batch_norm", R"(, "bias": false)"),
            "bias: batch_norm has no such option; it has eps, momentum, scale or synchronized");
}

TEST(LayerSpec, MissingOptionsAreRefused) {
  EXPECT_EQ(refusal_of("linear", ""), "out is missing: must be a whole number between 1 and 65536");
  EXPECT_EQ(refusal_of("conv2d", R"(, "kernel": 3)"),
            "out_channels is missing: must be a whole number between 1 and 65536");
  EXPECT_EQ(refusal_of("conv2d", R"(, "out_channels": 3)"),
            "kernel is missing: must be a whole number between 1 and 1024");
  EXPECT_EQ(refusal_of("max_pool2d", ""), "kernel is missing: must be a whole number between 1 and 1024");
  EXPECT_EQ(refusal_of("avg_pool2d", ""), "kernel is missing: must be a whole number between 1 and 1024");
  EXPECT_EQ(refusal_of("dropout", ""), "rate is missing: must be a number of at least 0 and below 1");
  EXPECT_EQ(refusal_of("low_rank_cross", R"(, "layers": 3)"),
            "rank is missing: must be a whole number between 1 and 65536");
  EXPECT_EQ(refusal_of("low_rank_cross", R"(, "rank": 3)"),
            "layers is missing: must be a whole number between 1 and 64");
  EXPECT_EQ(refusal_of("lstm", ""), "hidden is missing: must be a whole number between 1 and 65536");
  EXPECT_EQ(refusal_of("embedding", R"(, "dim": 3)"), "rows is missing: must be a whole number between 1 and 16777216");
  EXPECT_EQ(refusal_of("embedding", R"(, "rows": 3)"), "dim is missing: must be a whole number between 1 and 65536");
  EXPECT_EQ(refusal_of("multi_head_attention", ""),
            "heads is missing: must be a whole number between 1 and 65536 that divides the features of a step");
  EXPECT_EQ(refusal_of("residual", ""), "layers is missing: must be an array of at least one object");
}

TEST(LayerSpec, ValuesOutOfRangeAreRefused) {
  const std::string width = ": must be a whole number between 1 and 65536";
  const std::string window = ": must be a whole number between 1 and 1024";
  for (const char* const bad : {"0", "65537", "-1", "1.5", "\"8\"", "true", "1e30"}) {
    const std::string wrong = bad == std::string("\"8\"") ? "8" : bad == std::string("1e30") ? "1e+30" : bad;
    EXPECT_EQ(refusal_of("linear", std::string(R"(, "out": )") + bad), "out " + wrong + width);
    EXPECT_EQ(refusal_of("conv2d", std::string(R"(, "out_channels": )") + bad), "out_channels " + wrong + width);
    EXPECT_EQ(refusal_of("low_rank_cross", std::string(R"(, "rank": )") + bad), "rank " + wrong + width);
    EXPECT_EQ(refusal_of("lstm", std::string(R"(, "hidden": )") + bad), "hidden " + wrong + width);
    EXPECT_EQ(refusal_of("lstm", std::string(R"(, "hidden": 2, "steps": )") + bad), "steps " + wrong + width);
    EXPECT_EQ(refusal_of("max_pool2d", std::string(R"(, "kernel": )") + bad), "kernel " + wrong + window);
    EXPECT_EQ(refusal_of("avg_pool2d", std::string(R"(, "stride": )") + bad), "stride " + wrong + window);
  }
  EXPECT_EQ(refusal_of("conv2d", R"(, "padding": 1025)"), "padding 1025: must be a whole number between 0 and 1024");
  EXPECT_EQ(refusal_of("conv2d", R"(, "dilation": 0)"), "dilation 0: must be a whole number between 1 and 1024");
  EXPECT_EQ(refusal_of("low_rank_cross", R"(, "layers": 65)"), "layers 65: must be a whole number between 1 and 64");
  EXPECT_EQ(refusal_of("linear", R"(, "bias": 1)"), "bias 1: must be true or false");
  EXPECT_EQ(refusal_of("lstm", R"(, "hidden": 2, "last": 1)"), "last 1: must be true or false");
  EXPECT_EQ(refusal_of("batch_norm", R"(, "scale": "no")"), "scale no: must be true or false");
  EXPECT_EQ(refusal_of("batch_norm", R"(, "eps": 0)"), "eps 0: must be a number above 0 and at most 1");
  EXPECT_EQ(refusal_of("layer_norm", R"(, "eps": 2)"), "eps 2: must be a number above 0 and at most 1");
  EXPECT_EQ(refusal_of("batch_norm", R"(, "momentum": -1)"), "momentum -1: must be a number between 0 and 1");
  EXPECT_EQ(refusal_of("batch_norm", R"(, "momentum": 2)"), "momentum 2: must be a number between 0 and 1");
  EXPECT_EQ(refusal_of("dropout", R"(, "rate": 1)"), "rate 1: must be a number of at least 0 and below 1");
  EXPECT_NE(refusal_of("dropout", R"(, "rate": 0.9999999999999999)").find("below 1"), std::string::npos);
  EXPECT_EQ(refusal_of("dropout", R"(, "rate": -1)"), "rate -1: must be a number of at least 0 and below 1");
  EXPECT_EQ(refusal_of("dropout", R"(, "rate": "x")"), "rate x: must be a number of at least 0 and below 1");
  EXPECT_EQ(refusal_of("residual", R"(, "layers": 3)"), "layers 3: must be an array of at least one object");
  EXPECT_EQ(refusal_of("residual", R"(, "layers": [])"), "layers []: must be an array of at least one object");
  EXPECT_EQ(refusal_of("residual", R"(, "layers": [{"kind": "relu"}, {"kind": "linear", "out": 0}])"),
            "layer 1 (linear): out 0: must be a whole number between 1 and 65536");
}

std::string shape_refusal(const std::string& text, const troupe::shape& in) {
  return fault_of(make_layers(read(text), in));
}

TEST(LayerSpec, ShapesThatALayerCannotTakeAreRefused) {
  for (const char* const layer : {R"({"kind": "linear", "out": 3})", R"({"kind": "layer_norm"})",
                                  R"({"kind": "low_rank_cross", "rank": 2, "layers": 1})"}) {
    const auto kind = kind_of(read("[" + std::string(layer) + "]").at(0));
    EXPECT_EQ(shape_refusal(std::string(R"([{"kind": "relu"}, )") + layer + "]", {3, 8, 9}),
              "layer 1 (" + kind +
                  "): takes [features], and its input is an image of 3 x 8 x 9; put a flatten layer before it");
  }
  for (const char* const layer :
       {R"({"kind": "conv2d", "out_channels": 3, "kernel": 1})", R"({"kind": "max_pool2d", "kernel": 1})",
        R"({"kind": "avg_pool2d", "kernel": 1})", R"({"kind": "global_avg_pool2d"})"}) {
    const auto kind = kind_of(read("[" + std::string(layer) + "]").at(0));
    EXPECT_EQ(shape_refusal(std::string(R"([{"kind": "linear", "out": 5}, )") + layer + "]", {7}),
              "layer 1 (" + kind +
                  "): takes images of channels x height x width, and its input has 5 features; leave it out");
  }
}

TEST(LayerSpec, SequencesGoThroughLayersOfStepsAndOfNumbers) {
  const auto shape_of = [](const std::string& text, const troupe::shape& in) {
    const auto layers = make_layers(read(text), in);
    EXPECT_TRUE(layers.has_value()) << layers.error().message;
    return layers ? layers->back().out : troupe::shape();
  };
  EXPECT_EQ(shape_of(R"([{"kind": "lstm", "hidden": 3}])", {1, 28, 20}), troupe::shape(28, 3));
  EXPECT_EQ(shape_of(R"([{"kind": "lstm", "hidden": 3, "steps": 4}])", {12}), troupe::shape(4, 3));
  EXPECT_EQ(shape_of(R"([{"kind": "lstm", "hidden": 3, "steps": 28, "last": true}])", {1, 28, 20}), troupe::shape(3));
  EXPECT_EQ(shape_of(R"([{"kind": "lstm", "hidden": 3, "steps": 4}, {"kind": "dropout", "rate": 0.5},
                         {"kind": "residual", "layers": [{"kind": "lstm", "hidden": 3}, {"kind": "relu"}]},
                         {"kind": "lstm", "hidden": 5}, {"kind": "flatten"}])",
                     {12}),
            troupe::shape(20));
  EXPECT_EQ(shape_of(R"([{"kind": "embedding", "rows": 9, "dim": 6, "positions": 4},
                         {"kind": "residual", "layers": [{"kind": "layer_norm"},
                          {"kind": "multi_head_attention", "heads": 2, "causal": true}]},
                         {"kind": "residual", "layers": [{"kind": "linear", "out": 8}, {"kind": "gelu"},
                          {"kind": "linear", "out": 6}]}, {"kind": "linear", "out": 5}, {"kind": "flatten"}])",
                     {4}),
            troupe::shape(20));

  const std::string sequence = R"([{"kind": "lstm", "hidden": 6, "steps": 2}, {"kind": )";
  EXPECT_EQ(shape_refusal(sequence + R"("low_rank_cross", "rank": 3, "layers": 1}])", {8}),
            "layer 1 (low_rank_cross): takes [features], and its input is a sequence of 2 x 6; put a flatten layer "
            "before it");
  EXPECT_EQ(shape_refusal(sequence + R"("batch_norm"}])", {8}),
            "layer 1 (batch_norm): takes features or images, and its input is a sequence of 2 x 6; put a flatten layer "
            "before it");
  EXPECT_EQ(shape_refusal(sequence + R"("global_avg_pool2d"}])", {8}),
            "layer 1 (global_avg_pool2d): takes images of channels x height x width, and its input is a sequence of "
            "2 x 6; leave it out");
}

TEST(LayerSpec, WhatIsNoSequenceIsRefused) {
  EXPECT_EQ(
      shape_refusal(R"([{"kind": "lstm", "hidden": 6}])", {8}),
      "layer 0 (lstm): takes sequences of steps x features, which an image of 1 channel is too, and its input has "
      "8 features; say how many steps they are (steps)");
  EXPECT_EQ(shape_refusal(R"([{"kind": "lstm", "hidden": 6}])", {3, 4, 5}),
            "layer 0 (lstm): takes sequences of steps x features, which an image of 1 channel is too, and its input is "
            "an image of 3 x 4 x 5; put another layer before it");
  EXPECT_EQ(shape_refusal(R"([{"kind": "lstm", "hidden": 6, "steps": 4}])", {3, 4, 5}),
            "layer 0 (lstm): takes sequences of steps x features, which an image of 1 channel is too, and its input is "
            "an image of 3 x 4 x 5; put another layer before it");
  const std::string of_three = R"([{"kind": "lstm", "hidden": 6, "steps": 3}])";
  EXPECT_EQ(shape_refusal(of_three, {8}),
            "layer 0 (lstm): takes sequences of 3 steps, and its input has 8 features; take another number of steps");
  EXPECT_EQ(shape_refusal(of_three, {4, 3}),
            "layer 0 (lstm): takes sequences of 3 steps, and its input is a sequence of 4 x 3; take another number of "
            "steps");
  EXPECT_EQ(shape_refusal(of_three, {1, 2, 6}),
            "layer 0 (lstm): takes sequences of 3 steps, and its input is an image of 1 x 2 x 6; take another number "
            "of steps");
  EXPECT_EQ(shape_refusal(R"([{"kind": "lstm", "hidden": 65536}])", {40000, 1}),
            "layer 0 (lstm): its output of 40000 x 65536 has more than 2147483647 numbers a sample; take a smaller "
            "hidden or last = true");
}

TEST(LayerSpec, WindowsThatDoNotFitAreRefused) {
  EXPECT_EQ(shape_refusal(R"([{"kind": "conv2d", "out_channels": 3, "kernel": 5, "padding": 1}])", {2, 9, 2}),
            "layer 0 (conv2d): its kernel of 5 x 5 does not fit into an image of 2 x 9 x 2 with a padding of 1; take a "
            "smaller kernel or more padding");
  EXPECT_EQ(shape_refusal(R"([{"kind": "max_pool2d", "kernel": 4}])", {2, 3, 9}),
            "layer 0 (max_pool2d): its kernel of 4 x 4 does not fit into an image of 2 x 3 x 9; take a smaller kernel");
  EXPECT_EQ(shape_refusal(R"([{"kind": "conv2d", "out_channels": 65536, "kernel": 1, "padding": 1024}])", {1, 1, 1}),
            "layer 0 (conv2d): its output of 65536 x 2049 x 2049 has more than 2147483647 numbers a sample, and its "
            "input is 1 x 1 x 1; take fewer channels or a larger stride");
}

TEST(LayerSpec, GroupsDivideTheChannels) {
  const std::string three =
      "groups 3: must be a whole number between 1 and 65536 that divides the channels of input "
      "and output";
  EXPECT_EQ(refusal_of("conv2d", R"(, "out_channels": 8, "kernel": 1, "groups": 3)"), three);
  EXPECT_EQ(shape_refusal(R"([{"kind": "conv2d", "groups": 3, "out_channels": 8, "kernel": 1}])", {3, 4, 4}),
            "layer 0 (conv2d): " + three + " (3 and 8)");
  EXPECT_EQ(shape_refusal(R"([{"kind": "conv2d", "out_channels": 6, "kernel": 1, "groups": 3}])", {4, 4, 4}),
            "layer 0 (conv2d): " + three + " (4 and 6)");
  EXPECT_EQ(shape_refusal(R"([{"kind": "conv2d", "out_channels": 3, "kernel": 3, "dilation": 4}])", {2, 9, 8}),
            "layer 0 (conv2d): its kernel of 3 x 3 with a dilation of 4 does not fit into an image of 2 x 9 x 8 with a "
            "padding of 0; take a smaller kernel or more padding");
}

TEST(LayerSpec, AResidualKeepsTheShape) {
  EXPECT_EQ(shape_refusal(R"([{"kind": "residual", "layers": [{"kind": "linear", "out": 3}]}])", {4}),
            "layer 0 (residual): its layers make 3 of 4, and it adds both; make the shapes equal");
  EXPECT_EQ(shape_refusal(R"([{"kind": "residual", "layers": [{"kind": "flatten"}]}])", {2, 3, 3}),
            "layer 0 (residual): its layers make 18 of 2 x 3 x 3, and it adds both; make the shapes equal");
  EXPECT_EQ(shape_refusal(R"([{"kind": "relu"}, {"kind": "residual", "layers": [
                {"kind": "gelu"}, {"kind": "linear", "out": 3}]}])",
                          {2, 3, 3}),
            "layer 1 (residual): layer 1 (linear): takes [features], and its input is an image of 2 x 3 x 3; put a "
            "flatten layer before it");
}

TEST(LayerSpec, ShapesGoFromLayerToLayer) {
  const auto layers = make_layers(read(R"([
      {"kind": "conv2d", "out_channels": 6, "kernel": 5, "padding": 2, "stride": 2}, {"kind": "batch_norm"},
      {"kind": "max_pool2d", "kernel": 3, "stride": 2}, {"kind": "residual", "layers": [{"kind": "relu"}]},
      {"kind": "avg_pool2d", "kernel": 2}, {"kind": "flatten"}, {"kind": "linear", "out": 10}])"),
                                  {3, 28, 30});
  ASSERT_TRUE(layers.has_value()) << layers.error().message;
  const std::vector<troupe::shape> shapes{{6, 14, 15}, {6, 14, 15}, {6, 6, 7}, {6, 6, 7}, {6, 3, 3}, {54}, {10}};
  troupe::shape in(3, 28, 30);
  ASSERT_EQ(layers->size(), shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ((*layers)[i].in, in) << i;
    EXPECT_EQ((*layers)[i].out, shapes[i]) << i;
    in = shapes[i];
  }
}

}  // namespace
}  // namespace troupe::nn::layer_spec_test
