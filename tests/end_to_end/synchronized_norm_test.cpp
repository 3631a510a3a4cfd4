// Goal: batch normalisation over all ranks trains like one rank with all of their samples. Method: the same images for
// one, two and four trainers, whose batches together have the same samples; rows that the trainers cannot share evenly.

#include <gtest/gtest.h>

#include "tests/end_to_end/layered_job.hpp"

namespace troupe::end_to_end::synchronized_norm_test {
namespace {

constexpr const char* layers = R"([
  {"kind": "conv2d", "out_channels": 4, "kernel": 3},
  {"kind": "batch_norm", "synchronized": true},
  {"kind": "relu"},
  {"kind": "residual", "layers": [{"kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
                                  {"kind": "batch_norm", "synchronized": true, "scale": false}]},
  {"kind": "global_avg_pool2d"},
  {"kind": "linear", "out": 4}])";

/// 144 samples per step, over all trainers.
args job_of(int trainers, std::size_t rows) {
  return with(description_of("train --json --classes 4 --epochs 2 --dense-optimizer sgd:momentum=0.9 --dense-lr 0.1"),
              {"--data", written_images("train", static_cast<std::uint32_t>(rows)), "--layers", layers, "--trainers",
               std::to_string(trainers), "--batch-size", std::to_string(144 / trainers)});
}

double loss_of(const args& job) {
  const auto done = last_event(run(job), "done");
  EXPECT_FALSE(done.empty());
  return done.empty() ? 0 : done.at("loss").to_number<double>();
}

TEST(SynchronizedNorm, TrainsAsOneRankWithAllSamplesDoes) {
  const double alone = loss_of(job_of(1, 432));
  EXPECT_NEAR(loss_of(job_of(2, 432)), alone, 1e-5);
  EXPECT_NEAR(loss_of(job_of(3, 432)), alone, 1e-5);
}

TEST(SynchronizedNorm, HasOneDigestWhereRanksStandBy) {
  const args job = job_of(3, 433);  // one rank's batch has one image more
  const std::string digest = digest_of(run(job));
  ASSERT_NE(digest, "");
  for (const args& set_up : {args{"--processes"}, args{"--threads", "1"}, args{"--threads", "4"}})
    EXPECT_EQ(digest_of(run(with(job, set_up))), digest) << testing::PrintToString(set_up);
}

}  // namespace
}  // namespace troupe::end_to_end::synchronized_norm_test
