// Goal: an impossible network is refused before training, in one line with the layer, its fault, the limit and a
// remedy, with exit code 2. Method: wrong networks as options and in job files.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "nn/layer_spec.hpp"
#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::layers_refusals_test {
namespace {

const std::string all_kinds = [] {
  std::vector<std::string> names;
  nn::all_layers::for_each([&]<class Layer>() { names.emplace_back(Layer::options::kind); });
  return alternatives(names);
}();
const std::string all_keys = alternatives(nn::layer_keys());

/// Returns the error for a network on images of 1 x 8 x 8 in 4 classes, after the program's name.
std::string said_of(const std::string& layers, const args& more = {}, std::uint32_t rows = 402) {
  const std::string line = expect_error(run(with({"train", "--data", written_images("train", rows), "--classes", "4",
                                                  "--servers", "0", "--layers", layers},
                                                 more)),
                                        2);
  const std::string name = "troupe: error: ";
  EXPECT_EQ(line.substr(0, name.size()), name);
  return line.substr(std::min(name.size(), line.size()));
}

TEST(RefusedLayers, WhoseShapesDoNotFitAreNamedWithBothShapes) {
  EXPECT_EQ(said_of(R"([{"kind": "linear", "out": 4}])"),
            "--layers: layer 0 (linear): takes [features], and its input is an image of 1 x 8 x 8; put a flatten layer "
            "before it");
  EXPECT_EQ(said_of(R"([{"kind": "flatten"}, {"kind": "conv2d", "out_channels": 3, "kernel": 3}])"),
            "--layers: layer 1 (conv2d): takes images of channels x height x width, and its input has 64 features; "
            "leave it out");
  EXPECT_EQ(said_of(R"([{"kind": "residual", "layers": [{"kind": "conv2d", "out_channels": 3, "kernel": 3}]}])"),
            "--layers: layer 0 (residual): its layers make 3 x 6 x 6 of 1 x 8 x 8, and it adds both; make the shapes "
            "equal");
  const std::string data = written_images("train", 402);
  EXPECT_EQ(said_of(R"([{"kind": "flatten"}, {"kind": "linear", "out": 5}])"),
            "--layers: the last one, layer 1 (linear), makes 5; " + data + " needs 4; end with linear, out = 4");
  EXPECT_EQ(
      said_of(R"([{"kind": "conv2d", "out_channels": 4, "kernel": 3}])"),
      "--layers: the last one, layer 0 (conv2d), makes 4 x 6 x 6; " + data + " needs 4; end with linear, out = 4");
}

TEST(RefusedLayers, WithoutAnyLayer) {
  EXPECT_EQ(said_of("[]"), "--layers []: must have at least 1 layer; leave it out for an MLP of --hidden");
}

TEST(RefusedLayers, WithKernelsLargerThanTheirInput) {
  EXPECT_EQ(said_of(R"([{"kind": "conv2d", "out_channels": 3, "kernel": 11, "padding": 1}])"),
            "--layers: layer 0 (conv2d): its kernel of 11 x 11 does not fit into an image of 1 x 8 x 8 with a padding "
            "of 1; take a smaller kernel or more padding");
  EXPECT_EQ(said_of(R"([{"kind": "conv2d", "out_channels": 3, "kernel": 3}, {"kind": "max_pool2d", "kernel": 7}])"),
            "--layers: layer 1 (max_pool2d): its kernel of 7 x 7 does not fit into an image of 3 x 6 x 6; take a "
            "smaller kernel");
  EXPECT_EQ(said_of(R"([{"kind": "residual", "layers": [{"kind": "relu"}, {"kind": "avg_pool2d", "kernel": 9}]}])"),
            "--layers: layer 0 (residual): layer 1 (avg_pool2d): its kernel of 9 x 9 does not fit into an image of "
            "1 x 8 x 8; take a smaller kernel");
}

// -- batches of one sample --------------------------------------------------------------------------------------------

const std::string normed =
    R"([{"kind":"flatten"},{"kind":"linear","out":8},{"kind":"batch_norm"},{"kind":"linear","out":4}])";
constexpr const char* needs_more =
    ", and layer 2 (batch_norm) needs more than one value a channel; use another batch size";

TEST(RefusedBatches, WhoseLastSampleIsAloneAreFoundBeforeTheRun) {
  // Of 401 rows, trainer 0 has 201: ten batches of 20, and one row more.
  const std::string said =
      std::string("--batch-size 20: batch 11 of trainer 0 has 1 sample (401 rows over 2 trainers)") + needs_more;
  EXPECT_EQ(said_of(normed, {"--batch-size", "20"}, 401), said);
  EXPECT_EQ(said_of(normed, {"--batch-size", "20", "--steps", "11"}, 401), said);
  EXPECT_EQ(said_of(normed, {"--batch-size", "20", "--accumulate", "2"}, 401), said);
  // Trainer 1 has 200 rows: batches of 199 and 1.
  EXPECT_EQ(said_of(normed, {"--batch-size", "199"}, 401),
            std::string("--batch-size 199: batch 2 of trainer 1 has 1 sample (401 rows over 2 trainers)") + needs_more);
  const std::string data = written_images("train", 401);
  for (const args& passes : {args{"--batch-size", "20", "--steps", "10"}, args{"--batch-size", "21"}}) {
    const outcome result =
        run(with({"train", "--data", data, "--classes", "4", "--layers", normed, "--quiet"}, passes));
    EXPECT_EQ(result.exit_code, 0) << result.err << testing::PrintToString(passes);
  }
}

TEST(RefusedBatches, OfOneSampleAreFoundBeforeTheRun) {
  EXPECT_EQ(said_of(normed, {"--batch-size", "1"}),
            std::string("--batch-size 1: each batch has 1 sample") + needs_more);
  EXPECT_EQ(said_of(R"([{"kind": "flatten"}, {"kind": "residual", "layers": [{"kind": "batch_norm"}]},
                        {"kind": "linear", "out": 4}])",
                    {"--batch-size", "1"}),
            "--batch-size 1: each batch has 1 sample, and layer 0 (batch_norm) of layer 1 needs more than one value a "
            "channel; use another batch size");
  // An image has many values per channel.
  const outcome result =
      run({"train", "--data", written_images("train", 20), "--classes", "4", "--batch-size", "1", "--layers",
           R"([{"kind":"batch_norm"},{"kind":"flatten"},{"kind":"linear","out":4}])", "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

// -- options ----------------------------------------------------------------------------------------------------------

TEST(RefusedLayers, BesideHiddenWidths) {
  EXPECT_EQ(said_of(R"([{"kind": "flatten"}, {"kind": "linear", "out": 4}])", {"--hidden", "16"}),
            "--hidden 16: the job has --layers, which replace it; leave one of them out");
}

TEST(RefusedLayers, OfKindsAndOptionsThatThereAreNot) {
  EXPECT_EQ(said_of(R"([{"kind":"con2d"}])"),
            std::string(R"(--layers [{"kind":"con2d"}]: layer 0: kind con2d: unknown; the nearest is conv2d, and )") +
                "there are " + all_kinds);
  EXPECT_EQ(said_of(R"([{"kind":"linear","outs":4}])"),
            std::string(R"(--layers [{"kind":"linear","outs":4}]: layer 0 (linear): outs: unknown option; )") +
                "the nearest is out, and there are out or bias");
  EXPECT_EQ(said_of(R"([{"kind":"relu"},{"kind":"dropout","rate":1}])"),
            R"(--layers [{"kind":"relu"},{"kind":"dropout","rate":1}]: layer 1 (dropout): rate 1: must be a number of )"
            "at least 0 and below 1");
}

struct wrong_layers {
  /// The file from line 4 on.
  std::string content;
  /// The error text after the file's name.
  std::string said;
};

void PrintTo(const wrong_layers& file, std::ostream* out) { *out << file.said; }

class RefusedLayersOfAFile : public testing::TestWithParam<wrong_layers> {};

TEST_P(RefusedLayersOfAFile, AreNamedWithTheirLine) {
  const std::string file = write_file(
      "wrong.toml", "data = '" + written_images("train", 402) + "'\nclasses = 4\nservers = 0\n" + GetParam().content);
  EXPECT_EQ(expect_error(run({"train", file}), 2), "troupe: error: " + file + GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(
    Files, RefusedLayersOfAFile,
    testing::Values(
        wrong_layers{"[[layers]]\nkind = 'flatten'\n\n[[layers]]\nkind = 'lineer'\n",
                     std::string(R"(:7: layers = [{"kind":"flatten"},{"kind":"lineer"}]: layer 1: kind lineer: )") +
                         "unknown; the nearest is linear, and there are " + all_kinds},
        wrong_layers{"[[layers]]\nkind = 'flatten'\n\n[[layers]]\nkind = 'linear'\nouts = 4\n",
                     std::string(":9: outs: a layer has no such key; the nearest is out, and there are ") + all_keys},
        wrong_layers{"[[layers]]\nkind = 'flatten'\n\n[[layers]]\nkind = 'linear'\nkernel = 4\n",
                     R"(:7: layers = [{"kind":"flatten"},{"kind":"linear","kernel":4}]: layer 1 (linear): kernel: )"
                     "linear has no such option; it has out or bias"},
        wrong_layers{"[[layers]]\nkind = 'flatten'\n\n[[layers]]\nkind = 'linear'\n",
                     R"(:7: layers = [{"kind":"flatten"},{"kind":"linear"}]: layer 1 (linear): out is missing: )"
                     "must be a whole number between 1 and 65536"},
        wrong_layers{"[[layers]]\nkind = 'relu'\n\n[[layers]]\nkind = 'linear'\nout = 4\n",
                     ":7: layers: layer 1 (linear): takes [features], and its input is an image of 1 x 8 x 8; put a "
                     "flatten layer before it"},
        wrong_layers{"hidden = [16]\n\n[[layers]]\nkind = 'flatten'\n",
                     ":4: hidden = 16: the job has --layers, which replace it; leave one of them out"}));

// -- resumed ----------------------------------------------------------------------------------------------------------

TEST(RefusedLayers, ThatAreNotTheCheckpointsAreNamedByTheFirstThatDiffers) {
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(layered_job(), {"--steps", "2", "--save", folder.path()})).exit_code, 0);
  std::string other = convolutions;
  other.replace(other.find("out = 16"), 8, "out = 17");
  args job = layered_job(other);
  std::erase(job, "--json");
  const std::string path = job.at(1);
  constexpr const char* advice = "; continue with the same job, or start anew without --resume";
  EXPECT_EQ(expect_error(run(with(job, {"--resume", folder.path()})), 2),
            "troupe: error: " + path + R"(:32: layers: layer 6 is [{"kind":"linear","out":17}]: the run of the )" +
                R"(checkpoint has [{"kind":"linear","out":16}])" + advice);
  const args shorter = {"train", "--resume", folder.path(), "--layers",
                        R"([{"kind":"global_avg_pool2d"},{"kind":"linear","out":4}])"};
  EXPECT_EQ(expect_error(run(shorter), 2),
            std::string(R"(troupe: error: --layers: layer 0 is [{"kind":"global_avg_pool2d"}]: the run of the )") +
                R"(checkpoint has [{"kind":"conv2d","out_channels":6,"kernel":3,"padding":1,"bias":false}])" + advice);
}

TEST(RefusedLayers, InPlaceOfTheCheckpointsHiddenWidthsAndTheOtherWayAround) {
  const model::checkpoint_folder wide;
  const model::checkpoint_folder layered;
  const args data = {"train", "--data", written_images("train", 402), "--classes", "4", "--steps", "2", "--quiet"};
  const std::string layers = R"([{"kind":"flatten"},{"kind":"linear","out":4}])";
  EXPECT_EQ(run(with(data, {"--hidden", "16", "--save", wide.path()})).exit_code, 0);
  EXPECT_EQ(run(with(data, {"--layers", layers, "--save", layered.path()})).exit_code, 0);
  EXPECT_EQ(
      expect_error(run({"train", "--resume", wide.path(), "--layers", layers}), 2),
      "troupe: error: no --hidden: the run of the checkpoint has --hidden 16; continue with the same job, or start "
      "anew without --resume");
  EXPECT_EQ(expect_error(run({"train", "--resume", layered.path(), "--hidden", "16"}), 2),
            "troupe: error: no --layers: the run of the checkpoint has --layers " + layers +
                "; continue with the same job, or start anew without --resume");
}

// -- cross layers -----------------------------------------------------------------------------------------------------

TEST(RefusedCrossLayers, WithoutTheirInteraction) {
  constexpr const char* why = ": only --interaction dcn has cross layers; leave it out, or use --interaction dcn";
  EXPECT_EQ(expect_error(run({"train", "--cross-layers", "2"}), 2),
            std::string("troupe: error: --cross-layers 2") + why);
  EXPECT_EQ(expect_error(
                run({"train", "--data", "synthetic", "--tables", "2", "--interaction", "dot", "--cross-rank", "4"}), 2),
            std::string("troupe: error: --cross-rank 4") + why);
  EXPECT_EQ(expect_error(run({"train", "--interaction", "dcn", "--cross-layers", "65"}), 2),
            "troupe: error: --cross-layers 65: must be between 1 and 64");
}

TEST(RefusedCrossLayers, BeforeLayersLeaveTheseTheirNumbers) {
  EXPECT_EQ(expect_error(run({"train", "--interaction", "dcn", "--layers", R"([{"kind":"global_avg_pool2d"}])"}), 2)
                .find("troupe: error: --layers: layer 0 (global_avg_pool2d): takes images"),
            0U);
}

}  // namespace
}  // namespace troupe::end_to_end::layers_refusals_test
