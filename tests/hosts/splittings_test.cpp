// Goal: a run that is split into replicas, stages and slices over two hosts has the bits of one process.
// Method: network namespaces, eight splittings of two jobs; skipped without the right to make namespaces.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "tests/end_to_end/splittings.hpp"
#include "tests/hosts/host.hpp"
#include "tests/hosts/spread_run.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::hosts::splittings_test {
namespace {

using end_to_end::splitting;

const args on_cpu = {"--device", "cpu"};

args for_steps(const std::string& steps, const args& options) { return with({"--steps", steps}, options); }

/// A schedule, and the trainers' distribution over two hosts.
struct arrangement {
  const char* schedule;
  /// The slices of a stage share a host; neighbors in the pipeline, and stages with the same number, are on different
  /// hosts. If false, the first trainer to join is alone on its host, apart from the other slices of its stage.
  bool alternates;

  /// Whether the trainer that joins after `joined` others is on host b.
  bool is_on_b(int joined, const splitting& cut) const {
    const int stage = joined / cut.slices;
    return alternates ? (stage + stage / cut.pipeline) % 2 == 0 : joined == 0;
  }
};

const arrangement alternating = {"1f1b", true};
const arrangement one_apart = {"gpipe", false};

class SplitOverHosts : public testing::TestWithParam<end_to_end::split_run> {
 protected:
  void SetUp() override {
    if (!may_make_hosts()) GTEST_SKIP() << "skipped: needs CAP_NET_ADMIN";
    net_ = std::make_unique<three_hosts>();
  }

  /// Master and servers are on host a, trainers on a and b.
  std::unique_ptr<spread_run> start(const args& options, int servers, const splitting& cut, const arrangement& how) {
    auto run = std::make_unique<spread_run>(with(options, cut.with_schedule(how.schedule)), args{}, &net_->a,
                                            three_hosts::a_address);
    for (int i = 0; i < servers; ++i) run->join("server", {.on = &net_->a, .options = on_cpu});
    for (int i = 0; i < cut.ranks(); ++i)
      run->join("trainer", {.on = how.is_on_b(i, cut) ? &net_->b : &net_->a, .options = on_cpu});
    return run;
  }

  std::string digest_of_slices(const args& options, const splitting& cut) {
    return digest_of_one_process(with(with(options, cut.whole()), on_cpu));
  }

  std::unique_ptr<three_hosts> net_;
};

TEST_P(SplitOverHosts, HasTheBitsOfItsSlicesInOneProcess) {
  const auto& [job, cut] = GetParam();
  const args options = for_steps("20", job.options());
  const std::string expected = digest_of_slices(options, cut);
  for (const arrangement& how : {alternating, one_apart})
    EXPECT_EQ(start(options, job.servers, cut, how)->finish(), expected) << how.schedule;
}

INSTANTIATE_TEST_SUITE_P(Jobs, SplitOverHosts,
                         testing::Combine(testing::ValuesIn(end_to_end::split_jobs),
                                          testing::ValuesIn(end_to_end::eight_splittings)),
                         [](const auto& one) { return end_to_end::name_of(one.param); });

class Interrupted : public SplitOverHosts {};

/// Two stages continue as three with another schedule; if sliced, as one.
TEST_P(Interrupted, GoesOnUnderAnotherSplitting) {
  const auto& [job, cut] = GetParam();
  const splitting after{cut.trainers, cut.slices > 1 ? 1 : 3, cut.slices};
  const args options = job.options();
  const model::checkpoint_folder folder;
  const args unending = for_steps("100000000", with(options, {"--save", folder.path()}));
  const auto run = start(unending, job.servers, cut, alternating);
  run->wait_until_it_trains();
  run->master().send(SIGINT);
  ASSERT_TRUE(run->master().wait_for_output("\"event\":\"done\"")) << run->master().error();
  const auto stopped = end_to_end::json_lines(run->master().output()).back();
  run->finish();
  const std::string steps = std::to_string(stopped.at("steps").to_number<int>() + 15);
  const auto resumed = start(for_steps(steps, {"--resume", folder.path()}), job.servers, after, one_apart);
  EXPECT_EQ(resumed->finish(), digest_of_slices(for_steps(steps, options), cut));
}

INSTANTIATE_TEST_SUITE_P(Jobs, Interrupted,
                         testing::Combine(testing::ValuesIn(end_to_end::split_jobs),
                                          testing::Values(splitting{2, 2, 1}, splitting{1, 2, 2})),
                         [](const auto& one) { return end_to_end::name_of(one.param); });

}  // namespace
}  // namespace troupe::hosts::splittings_test
