#include "model/replay_config.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/made_run.hpp"

namespace troupe::model::replay_config_test {
namespace {

std::string config_refusal(const std::string& from, const std::string& to) {
  std::string text = made_run().config;
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const auto config = parse_replay_config(text);
  EXPECT_FALSE(config.has_value()) << text;
  return config ? "" : config.error().message;
}

TEST(ReplayConfig, UnsoundConfigurationsAreRefused) {
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

TEST(ReplayConfig, OptionalKeysMayBeLeftOut) {
  const auto config = parse_replay_config(
      R"({"trainers":2,"steps":3,"dense_features":4,"outputs":5,"loss":"mse","tables":[],"seed":7,"ragged":true,)"
      R"("batch":9,"dense_optimizer":{"kind":"sgd","momentum":0.5,"nesterov":true,"dampening":0}})");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_TRUE(config->tables.empty());
  EXPECT_TRUE(config->hidden.empty());
  EXPECT_TRUE(config->dense_optimizer.nesterov);
  EXPECT_EQ(config->dense_optimizer.lr, 0.001);
  const auto nothing =
      parse_replay_config(R"({"trainers":2,"steps":3,"outputs":5,"loss":"mse","dense_optimizer":{"kind":"sgd"}})");
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().message, "dense_features 0: must be at least 1 without tables");
}

}  // namespace
}  // namespace troupe::model::replay_config_test
