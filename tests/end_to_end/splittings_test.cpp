// Goal: however a run is split into replicas, stages and slices, and whatever its schedule, it has the bits of the run
// that is split only into the same slices: without slices, those of the whole network.
// Method: digests of two jobs in eight splittings.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/end_to_end/splittings.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::splittings_test {
namespace {

args train(const split_job& job, const args& options, const std::string& steps = "20") {
  return with(with({"train", "--json", "--device", "cpu", "--steps", steps}, job.options()), options);
}

class Splittings : public testing::TestWithParam<split_run> {};

TEST_P(Splittings, HaveTheBitsOfTheirSlices) {
  const auto& [job, cut] = GetParam();
  const std::string expected = digest_of(run(train(job, cut.whole())));
  for (const char* schedule : {"1f1b", "gpipe"})
    for (const args& options : {args{}, args{"--processes"}})
      EXPECT_EQ(digest_of(run(train(job, with(cut.with_schedule(schedule), options)))), expected)
          << schedule << testing::PrintToString(options);
}

INSTANTIATE_TEST_SUITE_P(Jobs, Splittings,
                         testing::Combine(testing::ValuesIn(split_jobs), testing::ValuesIn(eight_splittings)),
                         [](const auto& one) { return name_of(one.param); });

struct resumption {
  splitting before;
  splitting after;
};

/// Interrupted during the run, and resumed with as many replicas and slices, but other stages, schedules and processes.
TEST(Resumption, UnderAnotherSplittingHasTheBitsOfOneRun) {
  const std::string unending = "100000000";
  for (const split_job& job : split_jobs)
    for (const auto& [before, after] : {resumption{{2, 3, 1}, {2, 2, 1}}, resumption{{1, 2, 2}, {1, 1, 2}}}) {
      const model::checkpoint_folder folder;
      program running(
          train(job, with(before.with_schedule("1f1b"), {"--processes", "--save", folder.path()}), unending));
      ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
      running.send(SIGINT);
      const auto stopped = last_event(running.finish(), "done");
      ASSERT_EQ(stopped.at("stopped"), true);
      const std::string steps = std::to_string(stopped.at("steps").to_number<int>() + 15);
      const args on = {"train", "--resume", folder.path(), "--json", "--device", "cpu", "--steps", steps};
      EXPECT_EQ(digest_of(run(with(on, after.with_schedule("gpipe")))),
                digest_of(run(train(job, before.whole(), steps))))
          << job.name;
    }
}

}  // namespace
}  // namespace troupe::end_to_end::splittings_test
