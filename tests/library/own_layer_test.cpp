// Layers that a program adds to job files.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "nn/layer_spec.hpp"
#include "nn/own_layer.hpp"
#include "tests/library/error_of.hpp"

namespace troupe::own_layer_test {
namespace {

/// nn::relu, reimplemented.
class own_relu final : public nn::module {
 public:
  std::string type() const override { return "own_relu"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = std::max(x[i], 0.0F);
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto x = numbers.input.as<float>();
    if (!of.input) return;
    for (std::size_t i = 0; i < x.size(); ++i) of.input[i] = x[i] > 0 ? of.output[i] : 0;
  }
};

struct own_linear_options {
  static constexpr const char* kind = "own_linear";
  std::size_t in = 0;
  std::size_t width = 0;
  bool bias = true;
  double gain = 1;

  static const nn::option_fields<own_linear_options>& fields() {
    static const auto all =
        nn::option_fields<own_linear_options>()
            .whole("width", &own_linear_options::width, 1, 100)
            .truth("bias", &own_linear_options::bias)
            .real("gain", &own_linear_options::gain, "a positive number", [](double x) { return x > 0; });
    return all;
  }
  void fit(const troupe::shape& sample) { in = sample[0]; }
};

/// nn::linear under another name, and with another option name for its width.
class own_linear final : public nn::module {
 public:
  using options = own_linear_options;
  explicit own_linear(const options& chosen) : inside_(nn::checked(chosen).in, chosen.width, chosen.bias) {}

  std::string type() const override { return "own_linear"; }
  std::vector<nn::parameter> parameters() const override { return inside_.parameters(); }
  void initialize(std::uint64_t key, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override {
    inside_.initialize(key, parameters, buffers);
  }
  troupe::shape output(const tensor_view& input) const override { return inside_.output(input); }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override { inside_.forward(how, numbers); }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    inside_.backward(how, numbers, of);
  }

 private:
  nn::linear inside_;
};

/// Adds the layers once in a process.
void add_both() {
  static const bool added = [] {
    nn::add_layer<own_relu>("own_relu");
    nn::add_layer<own_linear>("own_linear");
    return true;
  }();
  ASSERT_TRUE(added);
}

std::string digest_of(const std::string& layers) {
  const auto job = model::parse_job({{"data", "synthetic"}, {"steps", "20"}, {"seed", "5"}, {"layers", layers}});
  EXPECT_TRUE(job) << job.error().message;
  return job ? nodes::run_job(*job, {}, nullptr).value().weights_digest : "";
}

TEST(OwnLayers, TrainInJobsWithTheBitsOfTheSameLayers) {
  add_both();
  const std::string expected =
      digest_of(R"([{"kind": "linear", "out": 6}, {"kind": "relu"}, {"kind": "linear", "out": 2}])");
  EXPECT_EQ(digest_of(R"([{"kind": "linear", "out": 6}, {"kind": "own_relu"}, {"kind": "linear", "out": 2}])"),
            expected);
  EXPECT_EQ(
      digest_of(R"([{"kind": "own_linear", "width": 6}, {"kind": "own_relu"}, {"kind": "own_linear", "width": 2}])"),
      expected);
  EXPECT_NE(digest_of(R"([{"kind": "own_linear", "width": 6}, {"kind": "own_linear", "width": 2}])"), expected);
}

TEST(OwnLayers, ArePrintedAsTheyWereRead) {
  add_both();
  const std::string text = R"([{"kind":"own_linear","width":6,"bias":false,"gain":5E-1},{"kind":"own_relu"},)"
                           R"({"kind":"own_linear","width":1}])";
  const auto read = nn::parse_layers(text).value();
  EXPECT_EQ(nn::to_json(read), text);
  EXPECT_EQ(nn::parse_layers(nn::to_json(read)).value(), read);
  EXPECT_EQ(nn::options_text(read.at(0)), "width 6, bias false, gain 0.5");
  const auto other = nn::parse_layers(R"([{"kind": "own_linear", "width": 6}])").value();
  EXPECT_FALSE(other.at(0) == read.at(0));
}

std::string refusal(const std::string& layers) {
  const auto read = nn::parse_layers(layers);
  return read ? "no error" : read.error().message;
}

TEST(OwnLayers, RefuseWhatTheirOptionsCannotBe) {
  add_both();
  EXPECT_EQ(refusal(R"([{"kind": "own_linear"}])"),
            "layer 0 (own_linear): width is missing: must be a whole number between 1 and 100");
  EXPECT_EQ(refusal(R"([{"kind": "own_linear", "width": 101}])"),
            "layer 0 (own_linear): width 101: must be a whole number between 1 and 100");
  EXPECT_EQ(refusal(R"([{"kind": "own_linear", "width": 3, "gain": -1}])"),
            "layer 0 (own_linear): gain -1: must be a positive number");
  EXPECT_EQ(refusal(R"([{"kind": "own_linear", "width": [3]}])"),
            "layer 0 (own_linear): width [3]: must be a whole number between 1 and 100");
  EXPECT_EQ(refusal(R"([{"kind": "own_linear", "width": 3, "rate": 1}])"),
            "layer 0 (own_linear): rate: own_linear has no such option; it has width, bias or gain");
  EXPECT_NE(refusal(R"([{"kind": "own_relu", "width": 3}])").find("own_relu has no such option; it has none"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"kind": "own_rel"}])").find("own_relu"), std::string::npos) << "the nearest";
}

/// Its errors would name another kind than job files do.
class own_scale final : public nn::module {
 public:
  using options = own_linear_options;
  explicit own_scale(const options& /*chosen*/) {}
  std::string type() const override { return "own_scale"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/) const override {}
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/,
                const nn::gradients& /*of*/) const override {}
};

TEST(OwnLayers, NeedANameOfTheirOwn) {
  add_both();
  EXPECT_EQ(test::error_of([] { nn::add_layer<own_scale>("own_scale"); }),
            "add_layer: the kind 'own_scale' of a layer whose options have the kind 'own_linear'; use one for both");
  const auto adding = [](const std::string& kind) { return test::error_of([&] { nn::add_layer<own_relu>(kind); }); };
  EXPECT_EQ(adding("relu"), "add_layer: there is a layer 'relu' already");
  EXPECT_EQ(adding("own_relu"), "add_layer: there is a layer 'own_relu' already");
  EXPECT_EQ(adding("Own relu"),
            "add_layer: the kind 'Own relu' must be of lower-case letters, digits and '_', a letter first");
}

}  // namespace
}  // namespace troupe::own_layer_test
