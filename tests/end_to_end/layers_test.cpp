// Goal: a network given by layers is trained with the same result however the program is set up, interrupted and
// resumed; its description is right. Method: digests of a convolutional network with running statistics and dropout on
// small images; closed forms of its sizes.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

#include "model/safetensors.hpp"
#include "tests/end_to_end/cuda.hpp"
#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::layers_test {
namespace {

/// Expects one digest of the job in one process and in several, and with one, two and three threads; returns it.
std::string expect_one_digest(const args& job, const launch& how = {}) {
  const std::string digest = digest_of(run(job, how));
  EXPECT_NE(digest, "");
  for (const args& set_up : {args{"--processes"}, args{"--threads", "1"}, args{"--threads", "2"},
                             args{"--threads", "3"}, args{"--processes", "--threads", "1"}})
    EXPECT_EQ(digest_of(run(with(job, set_up), how)), digest) << testing::PrintToString(set_up);
  return digest;
}

TEST(Layers, HaveOneDigestHoweverTheProgramIsSetUp) {
  const args job = layered_job();
  const std::string digest = expect_one_digest(job);
  EXPECT_NE(digest_of(run(with(job, {"--seed", "2"}))), digest);
}

#if defined(__x86_64__)
TEST(Layers, HaveOneDigestWithTheKernelsForAvx2) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    GTEST_SKIP() << "skipped: this processor has no AVX2";
  launch how;
  how.environment = {{"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"OPENBLAS_CORETYPE", "Haswell"}};
  expect_one_digest(layered_job(), how);
}
#endif

struct agreed_case {
  const char* name;
  args options;
};

void PrintTo(const agreed_case& one, std::ostream* out) { *out << one.name; }

class AgreedLayers : public testing::TestWithParam<agreed_case> {};

TEST_P(AgreedLayers, AreTheSameInProcessesAndNotThoseOfThePlainJob) {
  const args job = layered_job();
  const args asked = with(job, GetParam().options);
  const std::string digest = digest_of(run(asked));
  EXPECT_EQ(digest_of(run(with(asked, {"--processes"}))), digest);
  EXPECT_NE(digest, digest_of(run(job)));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, AgreedLayers,
    testing::Values(agreed_case{"accumulated", {"--accumulate", "2"}}, agreed_case{"clipped", {"--clip-norm", "0.5"}},
                    agreed_case{"all", {"--accumulate", "3", "--clip-norm", "0.5", "--nan", "skip"}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Layers, ThatNothingIsWrongWithAreNotChangedByTheLimits) {
  const args job = layered_job();
  const std::string digest = digest_of(run(job));
  EXPECT_EQ(digest_of(run(with(job, {"--clip-norm", "1000000"}))), digest);
  const auto skipping = last_event(run(with(job, {"--nan", "skip"})), "done");
  EXPECT_EQ(skipping.at("weights_digest").as_string(), digest);
  EXPECT_EQ(skipping.at("skipped_steps"), 0);
}

TEST(Layers, GoOnFromTheMiddleOfAnEpochAsIfNothingHadBeen) {
  const args job = layered_job();
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, {"--steps", "16", "--checkpoint-every", "7", "--save", folder.path()})).exit_code, 0);
  const args on = {"train", "--resume", folder.path(), "--json", "--device", "cpu"};
  EXPECT_EQ(digest_of(run(with(on, {"--steps", "26"}))), whole) << "3 steps into the second epoch";
  EXPECT_EQ(digest_of(run(with(job, {"--resume", folder.path(), "--processes"}))), whole);
}

/// A tensor of a folder's newest checkpoint, read from an export.
std::vector<float> exported(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/exported";
  const outcome made = run({"checkpoint", "export", folder, "--output", path, "--force"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const auto file = model::safetensors_file::open(path);
  const auto numbers = file ? file->read_floats(name) : tl::unexpected(file.error());
  EXPECT_TRUE(numbers.has_value()) << numbers.error().message;
  return numbers.value_or(std::vector<float>());
}

TEST(Layers, HaveTheirRunningStatisticsInTheCheckpointAndTheDigest) {
  // A momentum of 0 leaves the statistics at their initial values, and changes nothing else before an evaluation.
  const std::string normed = R"([[layers]]
kind = "conv2d"
out_channels = 6
kernel = 3

[[layers]]
kind = "batch_norm"
momentum = MOMENTUM

[[layers]]
kind = "global_avg_pool2d"

[[layers]]
kind = "linear"
out = 4
)";
  std::map<std::string, std::string> digests;
  for (const char* momentum : {"0.0", "0.1"}) {
    std::string layers = normed;
    layers.replace(layers.find("MOMENTUM"), 8, momentum);
    const model::checkpoint_folder folder;
    digests[momentum] = digest_of(run(with(layered_job(layers), {"--steps", "3", "--save", folder.path()})));
    const bool stay = momentum == std::string("0.0");
    EXPECT_EQ(exported(folder.path(), "top.1.running_mean") == std::vector<float>(6, 0), stay);
    EXPECT_EQ(exported(folder.path(), "top.1.running_var") == std::vector<float>(6, 1), stay);
  }
  EXPECT_NE(digests["0.0"], digests["0.1"]);
}

// One row is so large that its step's gradient overflows: a step with this row must not change anything.
TEST(Layers, LeaveRunningStatisticsAloneInASkippedStep) {
  std::string rows = "y,a,b\n";
  for (int row = 0; row < 40; ++row) rows += row == 7 ? "1,3e38,3e38\n" : row % 3 == 0 ? "1,0.5,2\n" : "0,-1,1\n";
  const std::string file = write_file("large.csv", rows);
  const args job =
      with(description_of("train --json --loss mse --servers 0 --batch-size 20 --nan skip --eval-every 0"),
           {"--data", "csv:" + file, "--columns",
            R"([{"name": "y", "kind": "label"}, {"name": "a", "kind": "numeric"}, {"name": "b", "kind": "numeric"}])",
            "--layers", R"([{"kind": "residual", "layers": [{"kind": "batch_norm"}]}, {"kind": "linear", "out": 1}])"});
  const auto trained = [&](const char* epochs, const args& more) {
    const model::checkpoint_folder folder;
    const outcome result = run(with(with(job, {"--epochs", epochs, "--save", folder.path()}), more));
    const auto done = last_event(result, "done");
    EXPECT_FALSE(done.empty()) << result.err;
    if (done.empty()) return std::string();
    EXPECT_EQ(std::to_string(done.at("skipped_steps").to_number<int>()), epochs);
    EXPECT_EQ(exported(folder.path(), "top.0.0.running_mean"), std::vector<float>(2, 0));
    EXPECT_EQ(exported(folder.path(), "top.0.0.running_var"), std::vector<float>(2, 1));
    return std::string(done.at("weights_digest").as_string());
  };
  const std::string digest = trained("1", {});
  EXPECT_EQ(trained("6", {}), digest);
  EXPECT_EQ(trained("6", {"--processes"}), digest);
}

// -- printing --------------------------------------------------------------------------------------------------

/// Parameters and multiply-adds of each layer of `convolutions`: a convolution has in x out x kernel^2 weights, each
/// used at every output position; a linear layer has in x out weights and a bias.
struct layer_size {
  const char* kind;
  int parameters;
  int multiply_adds;
};
const std::vector<layer_size> sizes = {{"conv2d", 1 * 6 * 3 * 3, 1 * 6 * 3 * 3 * 8 * 8},
                                       {"batch_norm", 2 * 6, 0},
                                       {"relu", 0, 0},
                                       {"max_pool2d", 0, 0},
                                       {"residual", 6 * 6 * 3 * 3 + 2 * 6, 6 * 6 * 3 * 3 * 4 * 4},
                                       {"flatten", 0, 0},
                                       {"linear", (6 * 4 * 4 + 1) * 16, 6 * 4 * 4 * 16},
                                       {"dropout", 0, 0},
                                       {"linear", (16 + 1) * 4, 16 * 4}};

TEST(PrintedNetwork, HasTheNumbersOfEachLayerAsJson) {
  const outcome result = run(with(layered_job(), {"--print-network"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), sizes.size() + 1);
  int parameters = 0;
  int multiply_adds = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(lines[i].at("event"), "layer");
    EXPECT_EQ(lines[i].at("number"), i);
    EXPECT_EQ(lines[i].at("kind"), sizes[i].kind);
    EXPECT_EQ(lines[i].at("parameters"), sizes[i].parameters) << i;
    EXPECT_EQ(lines[i].at("multiply_adds"), sizes[i].multiply_adds) << i;
    EXPECT_EQ(lines[i].at("in"), i > 0 ? lines[i - 1].at("out") : boost::json::parse("[1,8,8]"));
    parameters += sizes[i].parameters;
    multiply_adds += sizes[i].multiply_adds;
  }
  EXPECT_EQ(lines[4].at("out"), boost::json::parse("[6,4,4]"));
  EXPECT_EQ(lines.back().at("event"), "network");
  EXPECT_EQ(lines.back().at("parameters"), parameters);
  EXPECT_EQ(lines.back().at("multiply_adds"), multiply_adds);
}

TEST(PrintedNetwork, IsThatOfHiddenWidthsOnThePixelsOfImages) {
  const outcome result = run({"train", "--data", written_images("train", 402), "--classes", "4", "--hidden", "16",
                              "--print-network", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto sum = last_event(result, "network");
  EXPECT_EQ(sum.at("parameters"), (8 * 8 + 1) * 16 + (16 + 1) * 4);
  EXPECT_EQ(sum.at("multiply_adds"), 8 * 8 * 16 + 16 * 4);
}

TEST(PrintedNetwork, TellsTheStageOfEachLayerOfAPipeline) {
  const args job = {"train",      "--data", "synthetic",  "--hidden", "64,32",
                    "--trainers", "2",      "--pipeline", "2",        "--print-network"};
  const outcome chosen = run(with(job, {"--stages", "0,2", "--json"}));
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  std::vector<boost::json::value> stages;
  for (const auto& line : json_lines(chosen.out))
    if (line.at("event") == "layer") stages.push_back(line.at("stage"));
  EXPECT_EQ(stages, (std::vector<boost::json::value>{0, 0, 1, 1, 1}));

  const outcome measured = run(job);
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_FINDS(measured.out, "--stages 0,");
}

TEST(PrintedNetwork, IsReadable) {
  args job = layered_job();
  std::erase(job, "--json");
  const outcome result = run(with(job, {"--print-network"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto cells_of = [&](const std::string& part) {
    std::istringstream line(line_with(result.out, part));
    return args(std::istream_iterator<std::string>(line), {});
  };
  EXPECT_EQ(cells_of("top.4"), (args{"top.4", "residual", "conv2d,", "batch_norm", "6", "x", "4", "x", "4", "6", "x",
                                     "4", "x", "4", "336", "5184"}));
  EXPECT_EQ(cells_of("top.7"), (args{"top.7", "dropout", "rate", "0.3", "16", "16", "0", "0"}));
  EXPECT_EQ(cells_of("all"), (args{"all", "2022", "10240"}));
}

// -- sequences --------------------------------------------------------------------------------------------------------

/// LSTMs over the rows of the images.
const std::string through_rows = R"([[layers]]
kind = "lstm"
hidden = 12

[[layers]]
kind = "lstm"
hidden = 10
steps = 8
last = true

[[layers]]
kind = "linear"
out = 4
)";

TEST(Sequences, HaveOneDigestHoweverTheProgramIsSetUp) { expect_one_digest(layered_job(through_rows)); }

TEST(Sequences, ArePrintedWithTheirSizes) {
  const auto lines = json_lines(run(with(layered_job(through_rows), {"--print-network"})).out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].at("in"), boost::json::parse("[1,8,8]"));
  EXPECT_EQ(lines[0].at("out"), boost::json::parse("[8,12]"));
  EXPECT_EQ(lines[0].at("parameters"), 4 * 12 * (8 + 12 + 2));
  EXPECT_EQ(lines[0].at("multiply_adds"), 8 * 4 * 12 * (8 + 12));
  EXPECT_EQ(lines[1].at("options"), "hidden 10, steps 8, last true");
  EXPECT_EQ(lines[1].at("in"), boost::json::parse("[8,12]"));
  EXPECT_EQ(lines[1].at("out"), boost::json::parse("[10]"));
  EXPECT_EQ(lines[1].at("parameters"), 4 * 10 * (12 + 10 + 2));
}

// -- all trainers -----------------------------------------------------------------------------------------------------

TEST(AllTrainers, AreAsManyAsThisMachineHasCores) {
  const args job = layered_job();
  const std::string cores = std::to_string(std::max(1U, std::thread::hardware_concurrency()));
  const std::string expected = digest_of(run(with(job, {"--trainers", cores})));
  EXPECT_EQ(digest_of(run(with(job, {"--trainers", "all"}))), expected);
  EXPECT_EQ(digest_of(run(with(job, {"--trainers", "all", "--threads", "1"}))), expected);
}

TEST(AllTrainers, AreRefusedByAMasterWhoseTrainersAreElsewhere) {
  EXPECT_EQ(
      expect_error(run({"master", "--listen", "127.0.0.1:0", "--trainers", "all"}), 2),
      "troupe: error: --trainers all: the trainers compute on hosts that are to join; say how many there will be");
}

// -- devices ----------------------------------------------------------------------------------------------------------

using LayersGpu = CudaGpu;

TEST_F(LayersGpu, MeanWhatTheyMeanOnTheProcessor) {
  for (const std::string& layers : {convolutions, through_rows}) {
    const args here = layered_job(layers);
    args there = here;
    *std::find(there.begin(), there.end(), "cpu") = "cuda";
    const auto expected = last_event(run(here), "done");
    EXPECT_GT(expected.at("accuracy").to_number<double>(), 0.5) << "of four classes";
    const auto done = last_event(run(there), "done");
    for (const char* figure : {"loss", "accuracy", "test_loss"})
      EXPECT_NEAR(done.at(figure).to_number<double>(), expected.at(figure).to_number<double>(), 1e-5) << figure;
    EXPECT_EQ(digest_of(run(there)), done.at("weights_digest").as_string());
  }
}

// -- cross layers -----------------------------------------------------------------------------------------------------

TEST(CrossLayers, HaveOneDigestWithTables) {
  expect_one_digest({"train",        "--json", "--device", "cpu", "--data",       "synthetic", "--tables",      "2",
                     "--rows",       "500",    "--dim",    "8",   "--bag",        "3",         "--interaction", "dcn",
                     "--cross-rank", "4",      "--hidden", "16",  "--batch-size", "32",        "--steps",       "8"});
}

}  // namespace
}  // namespace troupe::end_to_end::layers_test
