// Goal: `troupe parity` accepts every reference run with any number of servers and threads, notices a single different
// number, and refuses other files without harm. Method: the files themselves, and altered copies.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "tests/end_to_end/program.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::parity_test {
namespace {

constexpr std::size_t length_bytes = 8;

/// The parts of a safetensors file: its JSON header, and the tensors after it.
struct safetensors {
  std::string header;
  std::string data;

  explicit safetensors(const std::string& content) {
    std::uint64_t length = 0;
    std::memcpy(&length, content.data(), length_bytes);
    header = content.substr(length_bytes, length);
    data = content.substr(length_bytes + length);
  }

  std::string content() const { return with_length(header.size()); }

  std::string with_length(std::uint64_t length) const {
    std::string bytes(length_bytes, '\0');
    std::memcpy(bytes.data(), &length, length_bytes);
    return bytes + header + data;
  }

  /// Replaces the first `what` in the header by `text`.
  safetensors& replace(const std::string& what, const std::string& text) {
    const std::size_t at = header.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    if (at != std::string::npos) header.replace(at, what.size(), text);
    return *this;
  }
};

safetensors file_of(const std::string& name) { return safetensors(read_file(reference_run(name + ".safetensors"))); }
safetensors tutorial() { return file_of("tutorial_sum"); }

struct accepted_case {
  const char* file;
  const char* servers;
};

void PrintTo(const accepted_case& one, std::ostream* out) { *out << one.file << ", servers: " << one.servers; }

class Accepted : public testing::TestWithParam<accepted_case> {};

TEST_P(Accepted, WithinTheLimit) {
  const outcome result = run({"parity", reference_run(GetParam().file), "--servers", GetParam().servers, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines_of(result.out).size(), 1u);
  const auto parity = last_event(result, "parity");
  ASSERT_EQ(parity.size(), 4u);
  EXPECT_EQ(parity.at("ok"), true);
  EXPECT_LE(parity.at("max_loss_error").to_number<double>(), 1e-4);
  EXPECT_LE(parity.at("max_weight_error").to_number<double>(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Files, Accepted,
    testing::Values(accepted_case{"tutorial_sum.safetensors", "1"}, accepted_case{"tutorial_sum.safetensors", "3"},
                    accepted_case{"tutorial_mean.safetensors", "1"}, accepted_case{"tutorial_mean.safetensors", "3"},
                    accepted_case{"ctr_adagrad.safetensors", "1"}, accepted_case{"ctr_adagrad.safetensors", "3"},
                    accepted_case{"mlp_mse.safetensors", "1"}, accepted_case{"mlp_mse.safetensors", "3"}),
    [](const auto& one) {
      const std::string file = one.param.file;
      return file.substr(0, file.find('.')) + "_servers_" + one.param.servers;
    });

/// Runs the parity of a network given by layers, and expects it within the limit.
void expect_layers_accepted(const std::string& name, const args& more) {
  SCOPED_TRACE(name + " " + testing::PrintToString(more));
  const outcome result = run(with({"parity", reference_run(name + ".safetensors"), "--json"}, more));
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_EQ(result.err, "");
  const auto parity = last_event(result, "parity");
  ASSERT_EQ(parity.size(), 5u);
  EXPECT_EQ(parity.at("ok"), true);
  for (const char* error : {"max_loss_error", "max_weight_error", "max_eval_error"})
    EXPECT_LE(parity.at(error).to_number<double>(), 1e-4) << error;
}

class AcceptedLayers : public testing::TestWithParam<const char*> {};

TEST_P(AcceptedLayers, WithinTheLimit) { expect_layers_accepted(GetParam(), {}); }

INSTANTIATE_TEST_SUITE_P(Files, AcceptedLayers,
                         testing::Values("convnet", "cross", "conv_max_pool", "conv_avg_pool", "batch_norm_features",
                                         "batch_norm_images", "layer_norm_gelu", "cross_deep", "residual_images",
                                         "residual_features", "strided_windows", "conv_cross", "micro_batch_features",
                                         "micro_batch_images", "lstm_rows", "lstm_features", "grouped_windows",
                                         "attention_rows", "next_word"),
                         [](const auto& one) { return std::string(one.param); });

TEST(Parity, AcceptsLayersWhateverTheThreads) {
  for (const char* name : {"residual_images", "batch_norm_features", "lstm_features"})
    for (const char* threads : {"1", "2", "3"}) expect_layers_accepted(name, {"--threads", threads});
}

TEST(Parity, AcceptsLayersInProcesses) {
  for (const char* name : {"batch_norm_features", "batch_norm_images", "residual_images", "cross", "lstm_rows"})
    expect_layers_accepted(name, {"--processes"});
}

TEST(Parity, IsReadable) {
  const outcome result = run({"parity", reference_run("tutorial_sum.safetensors")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* word : {"loss error", "weight error", "\nok"}) {
    EXPECT_FINDS(result.out, word);
  }
  EXPECT_EQ(result.out.find("eval error"), std::string::npos) << result.out;
  const outcome layers = run({"parity", reference_run("conv_avg_pool.safetensors")});
  EXPECT_EQ(layers.exit_code, 0) << layers.err;
  EXPECT_FINDS(layers.out, "\neval error");
}

/// A file in which the first number of an F64 tensor is replaced.
std::string with_number(const std::string& tensor, double value, safetensors file = tutorial()) {
  const auto header = boost::json::parse(file.header);
  const auto begin = header.at(tensor).at("data_offsets").at(0).to_number<std::size_t>();
  std::memcpy(file.data.data() + begin, &value, sizeof value);
  return file.content();
}

void expect_difference(const std::string& file, const char* place) {
  const outcome text = run({"parity", file});
  EXPECT_EQ(text.exit_code, 1) << text.err;
  EXPECT_FINDS(text.out, "not ok");
  EXPECT_FINDS(text.out, place);
  const outcome json = run({"parity", file, "--json"});
  EXPECT_EQ(json.exit_code, 1) << json.err;
  const auto parity = last_event(json, "parity");
  ASSERT_FALSE(parity.empty());
  EXPECT_EQ(parity.at("ok"), false);
}

TEST(Parity, NoticesOneTableWeight) {
  expect_difference(write_file("file", with_number("final.table.0.weight", 17.0)), "table 0, weight 0");
}

TEST(Parity, NoticesOneDenseWeight) {
  expect_difference(write_file("file", with_number("final.dense.0.bias", 17.0)), "dense weight 128");
}

TEST(Parity, NoticesOneLoss) {
  expect_difference(write_file("file", with_number("trainer.1.loss", 17.0)), "trainer 1, step 1");
}

TEST(Parity, NoticesOneNumberOfANetworkOfLayers) {
  const auto altered = [](const char* tensor) {
    return write_file("file", with_number(tensor, 17.0, file_of("batch_norm_features")));
  };
  expect_difference(altered("final.layer.0.weight"), "dense weight 0");
  // Running statistics: 16 means and variances of layer 1, then those of layer 4.
  expect_difference(altered("final.layer.4.running_var"), "running statistic 40");
  expect_difference(altered("eval.output"), "sample 0, output 0");
}

class Refused : public testing::Test {
 protected:
  static void refused(const std::string& content) {
    const std::string path = write_file("file", content);
    expect_error(run({"parity", path}), 2);
    expect_error(run({"train", "--data", "replay:" + path, "--quiet"}), 2);
  }
};

TEST_F(Refused, MissingFile) { expect_error(run({"parity", "/nowhere/at/all"}), 2); }
TEST_F(Refused, Folder) { expect_error(run({"parity", testing::TempDir()}), 2); }
TEST_F(Refused, EndlessFile) { expect_error(run({"parity", "/dev/zero"}), 2); }
TEST_F(Refused, EmptyFile) { refused(""); }
TEST_F(Refused, OtherFormat) {
  refused(
      "\x7f"
      "ELF is not what this should be, whatever its length");
}
TEST_F(Refused, HeaderLongerThanTheFile) { refused(tutorial().with_length(std::uint64_t{1} << 40)); }
TEST_F(Refused, HeaderLengthThatWraps) { refused(tutorial().with_length(~std::uint64_t{0})); }
TEST_F(Refused, NoHeader) { refused(tutorial().with_length(0)); }

TEST_F(Refused, TruncatedAnywhere) {
  const std::string content = tutorial().content();
  for (const std::size_t size :
       {std::size_t{4}, length_bytes, std::size_t{100}, content.size() / 2, content.size() - 1}) {
    refused(content.substr(0, size));
  }
}

TEST_F(Refused, DeeplyNestedHeader) {
  safetensors file = tutorial();
  file.header = std::string(1000000, '[');
  refused(file.content());
}

TEST_F(Refused, HeaderThatIsNoObject) {
  safetensors file = tutorial();
  file.header = "[]";
  refused(file.content());
}

TEST_F(Refused, ForeignTensors) {
  safetensors file = tutorial();
  file.header = R"({"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  file.data = std::string(4, '\0');
  refused(file.content());
}

TEST_F(Refused, OffsetsBeyondTheFile) {
  safetensors file = tutorial();
  const auto header = boost::json::parse(file.header);
  const auto end = header.at("final.table.0.weight").at("data_offsets").at(1).to_number<std::uint64_t>();
  refused(file.replace(", " + std::to_string(end) + "]", ", 18446744073709551615]").content());
}

TEST_F(Refused, ShapeThatOverflows) {
  refused(tutorial().replace("\"shape\": [100, 16]", "\"shape\": [4294967296, 4294967296]").content());
}

TEST_F(Refused, ConfigurationOfAnotherSize) {
  refused(tutorial().replace("\\\"trainers\\\": 2", "\\\"trainers\\\": 3").content());
  refused(tutorial().replace("\\\"trainers\\\": 2", "\\\"trainers\\\": 4000000000").content());
  refused(tutorial().replace("\\\"steps\\\": 200", "\\\"steps\\\": 201").content());
  refused(tutorial().replace("\\\"rows\\\": 100", "\\\"rows\\\": 99").content());
  refused(tutorial().replace("\\\"outputs\\\": 8", "\\\"outputs\\\": 0").content());
}

TEST_F(Refused, LayersThatDoNotFit) {
  const auto altered = [](const char* what, const char* text) {
    return file_of("conv_max_pool").replace(what, text).content();
  };
  refused(altered("\\\"kernel\\\": 3", "\\\"kernel\\\": 13"));
  refused(altered("\\\"outputs\\\": 4", "\\\"outputs\\\": 5"));
  refused(altered("[1, 10, 10]", "[1, 10, 11]"));
  refused(altered("\\\"flatten\\\"", "\\\"flat\\\""));
  refused(altered("\"eval.input\"", "\"eval.inputs\""));
}

TEST_F(Refused, UnknownOptimizer) { refused(tutorial().replace("\\\"sgd\\\"", "\\\"sdg\\\"").content()); }

TEST_F(Refused, IndexOutsideTheTable) {
  safetensors file = tutorial();
  const auto header = boost::json::parse(file.header);
  const auto begin = header.at("trainer.0.table.0.indices").at("data_offsets").at(0).to_number<std::size_t>();
  const std::int64_t outside = 100;
  std::memcpy(file.data.data() + begin, &outside, sizeof outside);
  refused(file.content());
}

}  // namespace
}  // namespace troupe::end_to_end::parity_test
