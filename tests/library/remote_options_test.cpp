// The options of types on servers: how they travel, and which are refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "nn/layer_spec.hpp"
#include "nn/own_layer.hpp"
#include "protocol/message_types.hpp"
#include "tests/actors/server_stage.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/runtime/module_service.hpp"
#include "troupe/runtime/registry.hpp"
#include "troupe/troupe.hpp"

namespace troupe::remote_options_test {

/// Reports its options. The default of `width` is not valid.
class told final : public remote_object {
 public:
  struct options {
    bool flag = true;
    std::int64_t from = -3;
    std::int32_t small = 7;
    std::size_t width = 0;
    std::uint32_t count = 5;
    double rate = 0.1;
    float scale = 0.1F;
    std::string_view name = "usual";

    static nn::option_fields<options> fields() {
      return nn::option_fields<options>()
          .truth("flag", &options::flag)
          .integer("from", &options::from)
          .integer("small", &options::small, -10, 10)
          .whole("width", &options::width, 1)
          .whole("count", &options::count, 0, std::numeric_limits<std::uint32_t>::max(), false)
          .real("rate", &options::rate)
          .real("scale", &options::scale, "a positive number", [](double x) { return x > 0; })
          .text("name", &options::name);
    }
  };
  explicit told(const options& chosen) : chosen_(chosen) {}

  bool flag() const { return chosen_.flag; }
  std::vector<std::int64_t> integers() const { return {chosen_.from, chosen_.small}; }
  std::vector<std::uint64_t> wholes() const { return {chosen_.width, chosen_.count}; }
  double rate() const { return chosen_.rate; }
  float scale() const { return chosen_.scale; }
  std::string name() const { return std::string(chosen_.name); }
  static void describe(methods<told>& m) {
    m.add("flag", &told::flag);
    m.add("integers", &told::integers);
    m.add("wholes", &told::wholes);
    m.add("rate", &told::rate);
    m.add("scale", &told::scale);
    m.add("name", &told::name);
  }

 private:
  options chosen_;
};
const registered<told> told_ones("remote_options_test.told");

/// One of its options is not described.
class half_described final : public remote_object {
 public:
  struct options {
    double first = 0;
    double second = 0;
    static nn::option_fields<options> fields() { return nn::option_fields<options>().real("first", &options::first); }
  };
  explicit half_described(const options& /*chosen*/) {}
  static void describe(methods<half_described>& /*m*/) {}
};
const registered<half_described> half_described_ones("remote_options_test.half_described");

struct gain_options {
  static constexpr const char* kind = "remote_options_test_gain";
  std::size_t features = 2;
  bool is_soft = false;

  static nn::option_fields<gain_options> fields() {
    return nn::option_fields<gain_options>()
        .whole("features", &gain_options::features, 1, 100, false)
        .truth("is_soft", &gain_options::is_soft);
  }
};

/// A layer of job files and a module on servers with the same options.
class gain final : public test::scale {
 public:
  using options = gain_options;
  explicit gain(const options& chosen) : scale(nn::checked(chosen).features) {}
  std::string type() const override { return "gain"; }
};
const registered<gain> gains("remote_options_test.gain");

namespace {

// -- values ---------------------------------------------------------------------------

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

task<> expect_told(remote_module<told> one, told::options given) {
  const bool flag = co_await one.call(&told::flag);
  EXPECT_EQ(flag, given.flag);
  const auto integers = co_await one.call(&told::integers);
  EXPECT_EQ(integers, (std::vector<std::int64_t>{given.from, given.small}));
  const auto wholes = co_await one.call(&told::wholes);
  EXPECT_EQ(wholes, (std::vector<std::uint64_t>{given.width, given.count}));
  const double rate = co_await one.call(&told::rate);
  EXPECT_EQ(rate, given.rate);
  const float scale = co_await one.call(&told::scale);
  EXPECT_EQ(scale, given.scale);
  const std::string name = co_await one.call(&told::name);
  EXPECT_EQ(name, given.name);
}

/// Checks the object that `main` made, and another one made during the run.
task<> expect_both(trainer me, remote_module<told> one, told::options given) {
  co_await expect_told(one, given);
  auto other = co_await me.server(0).make<told>(given);
  co_await expect_told(other, given);
}

TEST(RemoteOptions, TravelUnchanged) {
  const std::vector<told::options> all = {
      {.width = 1},
      {.flag = false,
       .from = least,
       .small = -10,
       .width = static_cast<std::size_t>(most),
       .count = 4294967295,
       .rate = 1.0 / 3,
       .scale = 1.0F / 3,
       .name = "two parts: = , and\nmore"},
      {.from = most, .small = 10, .width = 1, .count = 0, .rate = -5, .scale = 1e-40F, .name = ""},
      {.from = 0, .width = 2, .rate = std::numeric_limits<double>::denorm_min(), .scale = 3e38F},
      {.from = -1, .width = 3, .rate = 1e300},
      {.width = 4, .rate = std::numeric_limits<double>::infinity()},
  };
  for (const told::options& given : all) {
    test::made_cluster cluster;
    cluster.run(1, expect_both, cluster.server(0).make<told>(given), given);
  }
}

msg::arguments text_of(const told::options& given) {
  return runtime::to_text("told", detail::remote_options_of<told>(given));
}

TEST(RemoteOptions, TravelWithoutDefaults) {
  EXPECT_EQ(text_of({.width = 3}), (msg::arguments{{"width", "i:3"}}));
  EXPECT_EQ(
      text_of({.flag = false, .from = -4, .width = 3, .rate = 0.2, .name = "x"}),
      (msg::arguments{{"flag", "b:false"}, {"from", "i:-4"}, {"width", "i:3"}, {"rate", "d:0.2"}, {"name", "s:x"}}));
}

TEST(RemoteOptions, OfLinearHaveTheNamesThatOlderMessagesHave) {
  EXPECT_EQ(runtime::to_text("linear", detail::remote_options_of<nn::linear>({.in_features = 6, .out_features = 3})),
            (msg::arguments{{"in_features", "i:6"}, {"out_features", "i:3"}}));
  EXPECT_EQ(runtime::to_text(
                "linear", detail::remote_options_of<nn::linear>({.in_features = 6, .out_features = 3, .bias = false})),
            (msg::arguments{{"in_features", "i:6"}, {"out_features", "i:3"}, {"bias", "b:false"}}));
  const auto layers = nn::parse_layers(R"([{"kind":"linear","out":3}])").value();
  EXPECT_EQ(nn::to_json(layers), R"([{"kind":"linear","out":3}])") << "as in files";
}

// -- before sending -------------------------------------------------------------------

std::string error_of_make(const told::options& given) {
  test::made_cluster cluster;
  return test::error_of([&] { cluster.server(0).make<told>(given); });
}

TEST(RemoteOptions, AreHeldToTheirLimitsWhereTheyAreGiven) {
  const std::string type = "remote_options_test.told: ";
  EXPECT_EQ(error_of_make({.width = 1}), "no error");
  EXPECT_EQ(error_of_make({}), type + "width 0: must be a whole number between 1 and 9223372036854775807");
  EXPECT_EQ(error_of_make({.width = std::size_t{1} << 63}),
            type + "width 9223372036854775808: must be a whole number between 1 and 9223372036854775807");
  EXPECT_EQ(error_of_make({.small = -11, .width = 1}), type + "small -11: must be an integer between -10 and 10");
  EXPECT_EQ(error_of_make({.width = 1, .scale = 0}), type + "scale 0: must be a positive number");
  EXPECT_EQ(error_of_make({.width = 1, .scale = std::nanf("")}), type + "scale nan: must be a positive number");
}

TEST(RemoteOptions, AreAllDescribed) {
  test::made_cluster cluster;
  EXPECT_EQ(test::error_of([&] { cluster.server(0).make<half_described>({.second = 1}); }),
            "remote_options_test.half_described: its options have 2 members, of which fields() describes 1; describe "
            "each once");
}

// -- on the server --------------------------------------------------------------------

class RemoteOptionsOnServer : public actors::server_stage {
 protected:
  static void SetUpTestSuite() {
    protocol::initialize_types();
    runtime::register_modules();
  }

  void SetUp() override { make(1); }

  /// Returns the server's error when asked to make a module with these options.
  std::string refusal(const std::string& type, const msg::arguments& options) {
    msg::module_spec spec{runtime::own_module_type, {{"type:", type}}};
    for (const auto& one : options) spec.args.push_back(one);
    const auto made = ask<msg::module_ref>(server_, msg::instantiate{head(0), spec, 0, 1, 1, 1, 0, 0});
    run();
    return made->value ? "no error" : protocol::describe(made->error);
  }
  void expect_refusal(const std::string& type, const msg::arguments& options, const std::string& text) {
    const std::string told = refusal(type, options);
    EXPECT_NE(told.find(text), std::string::npos) << told << "\n" << text;
  }
};

TEST_F(RemoteOptionsOnServer, AreTakenInAnyOrder) {
  EXPECT_EQ(refusal("linear", {{"bias", "b:true"}, {"out_features", "i:3"}, {"in_features", "i:6"}}), "no error");
}

TEST_F(RemoteOptionsOnServer, AreRefusedIfUnknown) {
  expect_refusal("linear", {{"in_features", "i:6"}, {"out_features", "i:3"}, {"colour", "s:red"}},
                 "linear has no option colour; it has in_features, out_features or bias");
}

TEST_F(RemoteOptionsOnServer, AreRefusedIfMissing) {
  expect_refusal("linear", {{"in_features", "i:6"}},
                 "linear: out_features is missing: must be a whole number between 1 and 9223372036854775807");
}

TEST_F(RemoteOptionsOnServer, AreRefusedIfGivenTwice) {
  expect_refusal("linear", {{"in_features", "i:6"}, {"out_features", "i:3"}, {"in_features", "i:7"}},
                 "linear: in_features is given twice; give it once");
}

TEST_F(RemoteOptionsOnServer, AreRefusedIfOfAnotherKindOrBeyondLimits) {
  const std::string type = "remote_options_test.told";
  const auto expect = [&](const char* name, const char* value, const std::string& text) {
    msg::arguments options = {{name, value}};
    if (std::string(name) != "width") options.emplace_back("width", "i:1");
    expect_refusal(type, options, type + ": " + name + text);
  };
  expect("from", "s:x", " x: must be an integer");
  expect("from", "d:2.5", " 2.5: must be an integer");
  expect("from", "i:9223372036854775808", " is malformed: i:9223372036854775808");
  expect("small", "i:11", " 11: must be an integer between -10 and 10");
  expect("width", "i:-1", " -1: must be a whole number between 1 and 9223372036854775807");
  expect("count", "i:4294967296", " 4294967296: must be a whole number between 0 and 4294967295");
  expect("flag", "i:1", " 1: must be true or false");
  expect("rate", "b:true", " true: must be a number");
  expect("scale", "d:-1", " -1: must be a positive number");
  expect("name", "i:1", " 1: must be a text");
  expect("name", "x", " is malformed: x");
}

// -- also layers of job files ---------------------------------------------------------

task<> infer(trainer /*me*/, remote_module<gain> one, tensor x, tensor* y) { *y = co_await one.infer(x); }

TEST(RemoteOptions, MayBeThoseOfALayerOfJobFiles) {
  static const bool is_added = [] {
    nn::add_layer<gain>(gain_options::kind);
    return true;
  }();
  ASSERT_TRUE(is_added);
  const auto read = nn::parse_layers(R"([{"kind":"remote_options_test_gain","features":3}])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(nn::parse_layers(R"([{"kind":"remote_options_test_gain","features":101}])"));
  test::made_cluster cluster;
  EXPECT_EQ(test::error_of([&] { cluster.server(0).make<gain>({.features = 101}); }),
            "remote_options_test.gain: features 101: must be a whole number between 1 and 100");
  const std::vector<float> numbers = {1, 2, 3};
  tensor y;
  cluster.run(1, infer, cluster.server(0).make<gain>({.features = 3}), tensor::of<float>({1, 3}, numbers), &y);
  EXPECT_TRUE(std::ranges::equal(y.as<float>(), numbers)) << "its weights begin with 1";
}

}  // namespace
}  // namespace troupe::remote_options_test
