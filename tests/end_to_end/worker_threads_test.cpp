// Goal: a run's results do not depend on how many threads share its work.
// Method: jobs whose layers, bags and tables are large enough to be split into parts for idle threads.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end::worker_threads_test {
namespace {

struct cut_job {
  std::string name;
  args options;
};

void PrintTo(const cut_job& one, std::ostream* out) { *out << one.name; }

std::vector<cut_job> cut_jobs() {
  const args wide = {"--rows", "200000",   "--dim",   "64",         "--bag", "26",      "--batch-size",
                     "1024",   "--hidden", "512,256", "--trainers", "2",     "--steps", "3"};
  args accumulated = wide;
  accumulated.insert(accumulated.end(),
                     {"--accumulate", "2", "--clip-norm", "1", "--sparse-optimizer", "rowwise-adagrad"});
  return {{"wide", wide},
          {"accumulated", accumulated},
          {"every_row_of_eight_tables",
           {"--rows", "10000", "--tables", "8", "--dim", "64", "--bag", "4", "--batch-size", "512", "--hidden", "128",
            "--trainers", "2", "--steps", "2", "--sparse-optimizer", "adam"}}};
}

/// The digest of the weights that the job computes on this machine's processor; `blas`: the processor whose OpenBLAS
/// kernels are used, empty: this one.
std::string digest_of(const cut_job& job, const args& more, const std::string& blas) {
  const args all = with(with({"train", "--data", "synthetic", "--device", "cpu", "--json"}, job.options), more);
  launch how;
  if (!blas.empty()) how.environment = {{"OPENBLAS_CORETYPE", blas}};
  return end_to_end::digest_of(run(all, how));
}

/// Expects one digest with one, two and four threads, and in processes.
void expect_one_digest(const cut_job& job, const std::string& blas) {
  const std::string digest = digest_of(job, {"--threads", "1"}, blas);
  ASSERT_NE(digest, "");
  for (const char* threads : {"2", "4"})
    EXPECT_EQ(digest_of(job, {"--threads", threads}, blas), digest) << threads << " threads";
  EXPECT_EQ(digest_of(job, {"--threads", "2", "--processes"}, blas), digest) << "in processes";
}

class CutJob : public testing::TestWithParam<cut_job> {};

TEST_P(CutJob, HasOneDigest) { expect_one_digest(GetParam(), ""); }

#if defined(__x86_64__)

TEST_P(CutJob, HasOneDigestWithTheKernelsForAvx2) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    GTEST_SKIP() << "skipped: this processor has no AVX2";
  expect_one_digest(GetParam(), "Haswell");
}

TEST_P(CutJob, HasOneDigestWithTheKernelsForAvx512) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq"))
    GTEST_SKIP() << "skipped: this processor has no AVX-512";
  expect_one_digest(GetParam(), "SkylakeX");
}

#endif

INSTANTIATE_TEST_SUITE_P(Jobs, CutJob, testing::ValuesIn(cut_jobs()),
                         [](const testing::TestParamInfo<cut_job>& tested) { return tested.param.name; });

}  // namespace
}  // namespace troupe::end_to_end::worker_threads_test
