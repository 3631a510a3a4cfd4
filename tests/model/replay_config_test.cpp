#include "model/replay_config.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "tests/model/made_run.hpp"

namespace troupe::model::replay_config_test {
namespace {

std::string config_refusal(const std::string& from, const std::string& to, std::string text = made_run().config) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const auto config = parse_replay_config(text);
  EXPECT_FALSE(config.has_value()) << text;
  return config ? "" : config.error().message;
}

TEST(ReplayConfig, UnsoundConfigurationsAreRefused) {
  EXPECT_EQ(config_refusal("{\"trainers\":1,", "{\"trainers\":1,\"trainers\":1,"),
            "key trainers is given twice, at byte 23");
  EXPECT_EQ(config_refusal("\"trainers\":1,", ""), "trainers is missing");
  EXPECT_EQ(config_refusal("\"trainers\":1", "\"trainers\":0"),
            "trainers 0: must be a whole number between 1 and 1024");
  EXPECT_EQ(config_refusal("\"trainers\":1", "\"trainers\":\"1\""),
            "trainers \"1\": must be a whole number between 1 and 1024");
  EXPECT_EQ(config_refusal("\"steps\":2", "\"steps\":-2"),
            "steps -2: must be a whole number between 1 and 1000000000000");
  EXPECT_EQ(config_refusal("\"steps\":2", "\"steps\":2.5"),
            "steps 2.5E0: must be a whole number between 1 and 1000000000000");
  EXPECT_EQ(config_refusal("\"outputs\":2", "\"outputs\":null"), "outputs is missing");
  EXPECT_EQ(config_refusal("bce_logits", "hinge"), "loss \"hinge\": must be cross_entropy, bce_logits or mse");
  EXPECT_EQ(config_refusal("\"loss\":\"bce_logits\",", ""), "loss is missing");
  EXPECT_EQ(config_refusal("\"rows\":4", "\"rows\":0"),
            "tables[0].rows 0: must be a whole number between 1 and 1000000000000");
  EXPECT_EQ(config_refusal(",\"dim\":1", ""), "tables[1].dim is missing");
  EXPECT_EQ(config_refusal("\"mode\":\"sum\"", "\"mode\":\"min\""), "tables[0].mode \"min\": must be sum, mean or max");
  EXPECT_EQ(config_refusal("\"mode\":\"sum\"", "\"mode\":\"max\""),
            "tables[0].weighted true: must be with mode sum only");
  EXPECT_EQ(config_refusal("\"weighted\":true", "\"weighted\":1"), "tables[0].weighted 1: must be true or false");
  EXPECT_EQ(config_refusal("[0.8,0.95]", "[0.8]"), "dense_optimizer.betas [8E-1]: must be two numbers");
  EXPECT_EQ(config_refusal("[0.8,0.95]", "[0.8,1]"), "dense_optimizer: beta2 must be at least 0 and below 1, not 1");
  EXPECT_EQ(config_refusal("\"amsgrad\":false", "\"amsgrad\":true"),
            "dense_optimizer: adam has no option amsgrad; the nearest is beta1, and there are beta1, beta2, eps or "
            "weight_decay");
  EXPECT_EQ(config_refusal("\"eps\":1e-6", "\"lr\":-1"), "dense_optimizer.lr -1: must be between 0 and 1000000");
  EXPECT_EQ(config_refusal("\"eps\":1e-6", "\"eps\":\"x\""), "dense_optimizer.eps \"x\": must be a number");
  EXPECT_EQ(config_refusal("\"kind\":\"adam\",", ""), "dense_optimizer.kind is missing");
  EXPECT_EQ(config_refusal("\"kind\":\"adagrad\"", "\"kind\":7"), "sparse_optimizer.kind 7: must be text");
  EXPECT_EQ(config_refusal("\"dense_optimizer\"", "\"dense_optimiser\""), "dense_optimizer is missing");
  EXPECT_EQ(config_refusal("\"dense_features\":1", "\"hidden\":[8,0]"),
            "hidden 0: must be a whole number between 1 and 65536");
  EXPECT_EQ(config_refusal("\"dense_features\":1", "\"hidden\":7"), "hidden 7: must be an array");
  for (const char* text : {"", "[]", "{", "7", "{\"trainers\":1} x", "[[[[[[[[[["}) {
    EXPECT_FALSE(parse_replay_config(text).has_value()) << text;
  }
}

std::string layers_refusal(const std::string& from, const std::string& to) {
  return config_refusal(from, to, made_layer_run().config);
}

TEST(ReplayConfig, UnsoundLayersAreRefused) {
  EXPECT_EQ(layers_refusal("\"input\":[1,2,2],", ""), "input is missing");
  EXPECT_EQ(layers_refusal("[1,2,2]", "4"), "input 4: must be an array");
  EXPECT_EQ(layers_refusal("[1,2,2]", "[]"), "input []: must be [features] or [channels, height, width]");
  EXPECT_EQ(layers_refusal("[1,2,2]", "[2,2]"), "input [2,2]: must be [features] or [channels, height, width]");
  EXPECT_EQ(layers_refusal("[1,2,2]", "[1,0,2]"), "input 0: must be a whole number between 1 and 65536");
  EXPECT_EQ(layers_refusal("[1,2,2]", "[65536,65536,65536]"),
            "input [65536,65536,65536]: a sample must have at most 1048576 numbers");
  EXPECT_EQ(layers_refusal("[1,2,2]", "[1,1024,1025]"),
            "input [1,1024,1025]: a sample must have at most 1048576 numbers");
  EXPECT_EQ(layers_refusal("\"batch\":2,", ""), "batch is missing");
  EXPECT_EQ(layers_refusal("\"batch\":2", "\"batch\":0"), "batch 0: must be a whole number between 1 and 65536");
  EXPECT_EQ(layers_refusal("\"steps\":2,\"batch\":2", "\"steps\":1000000000000,\"batch\":2"),
            "batch 2: must be at most 1099511627776 samples in all 1000000000000 steps");
  EXPECT_EQ(layers_refusal("\"outputs\":1", "\"outputs\":3"), "outputs 3: must be 1, which the last layer returns");
  for (const char* other : {"\"hidden\":[8]", "\"dense_features\":4", "\"tables\":[{\"rows\":1,\"dim\":1}]"}) {
    const std::string_view both = other;
    const std::size_t colon = both.find(':');
    EXPECT_EQ(layers_refusal("\"loss\"", fmt::format("{},\"loss\"", other)),
              fmt::format("{} {}: must be left out with layers", both.substr(1, colon - 2), both.substr(colon + 1)));
  }
  EXPECT_EQ(layers_refusal("\"dense_optimizer\"", "\"dense_optimiser\""), "dense_optimizer is missing");
  // Errors of parse_layers and make_layers, with the layer's index.
  for (const auto& [from, to, why] : {std::tuple{"\"kind\":\"flatten\"", "\"kind\":\"flat\"", "layers: layer 3: "},
                                      std::tuple{"\"kernel\":2", "\"kernel\":3", "layers: layer 0 (conv2d): "},
                                      std::tuple{"\"kernel\":2,", "", "layers: layer 0 (conv2d): "},
                                      std::tuple{"{\"kind\":\"flatten\"},", "", "layers: layer 3 (linear): "}}) {
    const std::string refusal = layers_refusal(from, to);
    EXPECT_EQ(refusal.find(why), 0U) << refusal;
  }
  EXPECT_EQ(layers_refusal(R"([{"kind":"batch_norm"}])", "[]").find("layers: layer 2 (residual): "), 0U);
  std::string text = made_layer_run().config;
  const std::size_t begin = text.find("[{");
  text.replace(begin, text.rfind("}],") + 2 - begin, "[]");
  EXPECT_EQ(config_refusal("[]", "[]", text), "layers []: must be at least one layer");
  EXPECT_EQ(config_refusal("[]", "7", text), "layers 7: must be an array");
}

TEST(ReplayConfig, LayersAreRead) {
  const auto config = parse_replay_config(made_layer_run().config);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  ASSERT_EQ(config->layers.size(), 5U);
  EXPECT_EQ(config->layers[0], (nn::layer_spec{nn::conv2d::options{.out_channels = 2, .kernel = 2, .bias = false}}));
  EXPECT_EQ(config->layers[2], (nn::layer_spec{nn::residual::options{{{nn::batch_norm::options{}}}}}));
  EXPECT_EQ(config->input, troupe::shape(1, 2, 2));
  EXPECT_EQ(config->batch, 2U);
  const data_spec spec = spec_of(*config);
  EXPECT_TRUE(spec.tables.empty());
  EXPECT_EQ(spec.dense_features, 4U);
  EXPECT_EQ(spec.outputs, 1U);
  EXPECT_EQ(spec.image, troupe::shape(1, 2, 2));
  // Three lengths mean an image, one does not, if nothing else decides.
  const auto features = parse_replay_config(
      R"({"trainers":1,"steps":1,"batch":1,"input":[7],"outputs":7,"loss":"mse","hidden":[],"tables":[],)"
      R"("layers":[{"kind":"layer_norm"}],"dense_optimizer":{"kind":"sgd"}})");
  ASSERT_TRUE(features.has_value()) << features.error().message;
  EXPECT_EQ(spec_of(*features).dense_features, 7U);
  EXPECT_TRUE(spec_of(*features).image.empty());
}

TEST(ReplayConfig, OptionalKeysMayBeLeftOut) {
  const auto config = parse_replay_config(
      R"({"trainers":2,"steps":3,"dense_features":4,"outputs":5,"loss":"mse","tables":[],"seed":7,"ragged":true,)"
      R"("batch":9,"dense_optimizer":{"kind":"sgd","momentum":0.5,"nesterov":true,"dampening":0}})");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_TRUE(config->tables.empty());
  EXPECT_TRUE(config->hidden.empty());
  EXPECT_EQ(config->dense_optimizer.options, optimizer_options(sgd_options{0.5, 0, true}));
  EXPECT_EQ(config->dense_optimizer.lr, 0.001);
  const auto nothing =
      parse_replay_config(R"({"trainers":2,"steps":3,"outputs":5,"loss":"mse","dense_optimizer":{"kind":"sgd"}})");
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().message, "dense_features 0: must be at least 1 without tables");
}

}  // namespace
}  // namespace troupe::model::replay_config_test
