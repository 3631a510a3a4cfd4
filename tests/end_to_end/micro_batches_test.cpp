// Goal: batches that pass through the network in micro-batches train correctly, with one result however the program is
// set up. Method: reference runs (parity_test.cpp) check the numbers; this file compares digests of one job set up
// differently, and losses where only rounding may differ from whole batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/end_to_end/cuda.hpp"
#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::micro_batches_test {
namespace {

const args in_four = {"--micro-batches", "4"};

TEST(MicroBatches, HaveOneDigestHoweverTheProgramIsSetUp) {
  const args job = layered_job();
  const std::string whole = digest_of(run(job));
  for (const args& options : {in_four, with(in_four, {"--accumulate", "3", "--clip-norm", "0.5", "--nan", "skip"})}) {
    const args asked = with(job, options);
    const std::string digest = digest_of(run(asked));
    EXPECT_NE(digest, whole) << "the statistics are those of micro-batches";
    for (const args& set_up : {args{"--processes"}, args{"--threads", "1"}, args{"--threads", "3"}})
      EXPECT_EQ(digest_of(run(with(asked, set_up))), digest) << testing::PrintToString(set_up);
  }
}

TEST(MicroBatches, GoOnFromTheMiddleOfAnEpochAndOnlyAsManyAsBefore) {
  const args job = with(layered_job(), in_four);
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, {"--steps", "16", "--save", folder.path()})).exit_code, 0);
  const args on = {"train", "--resume", folder.path(), "--device", "cpu"};
  EXPECT_EQ(digest_of(run(with(on, {"--json", "--steps", "26"}))), whole);
  const std::string line = expect_error(run(with(on, {"--micro-batches", "2", "--steps", "26"})), 2);
  EXPECT_FINDS(line, "--micro-batches 2");
}

/// Without batch statistics, only the order of sums differs; also with dropout, whose masks do not depend on the
/// splitting.
TEST(MicroBatches, OfALayerThatLooksAtSamplesAloneLearnWhatWholeBatchesDo) {
  const args job = layered_job(R"([[layers]]
kind = "flatten"

[[layers]]
kind = "linear"
out = 16

[[layers]]
kind = "layer_norm"

[[layers]]
kind = "dropout"
rate = 0.5

[[layers]]
kind = "linear"
out = 4
)");
  const double whole = last_event(run(job), "done").at("loss").to_number<double>();
  for (const char* count : {"2", "3", "16"}) {
    const double cut = last_event(run(with(job, {"--micro-batches", count})), "done").at("loss").to_number<double>();
    EXPECT_NEAR(cut, whole, 1e-5 * whole) << count;
    EXPECT_NE(cut, whole) << count;
  }
}

/// Tables have one lookup and one gradient a step. The tutorial's batches have few samples: some parts are empty.
TEST(MicroBatches, HaveTheTablesOfWholeBatches) {
  for (const args& job :
       {args{"train", "--json", "--data", "tutorial", "--epochs", "3", "--device", "cpu"},
        args{"train", "--json", "--data", "adult", "--steps", "30", "--interaction", "dot", "--device", "cpu"}}) {
    const auto whole = last_event(run(job), "done");
    const auto cut = last_event(run(with(job, {"--micro-batches", "7"})), "done");
    const double loss = whole.at("loss").to_number<double>();
    EXPECT_NEAR(cut.at("loss").to_number<double>(), loss, 1e-5 * loss);
    EXPECT_EQ(cut.at("steps"), whole.at("steps"));
    EXPECT_EQ(cut.at("samples"), whole.at("samples"));
  }
}

const std::string synchronized_norm =
    R"([{"kind": "batch_norm", "synchronized": true}, {"kind": "flatten"}, {"kind": "linear", "out": 4}])";

/// 402 rows over 4 trainers: in an epoch's last step, two have 5 samples and two have 4, in 5 micro-batches.
TEST(MicroBatches, WaitForTheOtherRanksStatisticsAlsoWhereTheyHaveNone) {
  const args job = {"train",        "--json", "--data",          written_images("train", 402),
                    "--classes",    "4",      "--servers",       "0",
                    "--trainers",   "4",      "--layers",        synchronized_norm,
                    "--steps",      "30",     "--device",        "cpu",
                    "--batch-size", "12",     "--micro-batches", "5"};
  const std::string digest = digest_of(run(job));
  EXPECT_NE(digest, "");
  EXPECT_EQ(digest_of(run(with(job, {"--processes"}))), digest);
}

TEST(MicroBatches, ThatCannotBeAreRefused) {
  const auto said = [](const args& options) {
    return expect_error(run(with({"train", "--data", "adult"}, options)), 2);
  };
  EXPECT_EQ(said({"--batch-size", "3", "--micro-batches", "4"}),
            "troupe: error: --micro-batches 4: a batch has only 3 samples (--batch-size); use at most 3");
  EXPECT_FINDS(said({"--micro-batches", "0"}), "--micro-batches 0: must be between 1 and 1024");
  const args normed = {"--layers", R"([{"kind": "batch_norm"}, {"kind": "linear", "out": 1}])"};
  EXPECT_EQ(said(with(normed, {"--batch-size", "7", "--micro-batches", "4"})),
            "troupe: error: --batch-size 7: each batch has 7 samples in 4 micro-batches, one of them of 1 sample, and "
            "layer 0 (batch_norm) needs more than one value a channel; use another batch size");
}

TEST_F(CudaGpu, MicroBatchesMeanWhatTheProcessorDoes) {
  const args job = with(layered_job(), in_four);
  const double expected = last_event(run(job), "done").at("loss").to_number<double>();
  args there = job;
  *std::ranges::find(there, "cpu") = "cuda";
  const auto once = last_event(run(there), "done");
  EXPECT_NEAR(once.at("loss").to_number<double>(), expected, 1e-3 * expected);
  EXPECT_EQ(last_event(run(there), "done").at("weights_digest"), once.at("weights_digest"));
}

}  // namespace
}  // namespace troupe::end_to_end::micro_batches_test
