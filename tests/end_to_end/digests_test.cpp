// Goal: no code change alters a bit of what is trained, with any layer, optimizer, splitting and placement, in the
// program and in the library. Method: digests/runs.txt has commands, each with the weights' digests that commit
// c48cb406 printed with the instruction sets AVX3 and AVX2. Each is run again with those of the two that this machine
// has.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/devices.hpp"
#include "tests/end_to_end/layered_job.hpp"

namespace troupe::end_to_end::digests_test {
namespace {

struct recorded_run {
  std::string with_avx3;
  std::string with_avx2;
  args command;
};

void PrintTo(const recorded_run& one, std::ostream* out) { *out << fmt::format("{}", fmt::join(one.command, " ")); }

std::vector<recorded_run> recorded_runs() {
  std::vector<recorded_run> all;
  std::ifstream file(TROUPE_DIGESTS "/runs.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream text(line);
    recorded_run one;
    text >> one.with_avx3 >> one.with_avx2;
    for (std::string word; text >> word;) one.command.push_back(word);
    all.push_back(std::move(one));
  }
  return all;
}

/// Completes the command with its program, its files and settings that do not affect the digest.
args completed(const recorded_run& of, launch& how) {
  args all = of.command;
  if (all.front().starts_with("example_")) {
    how.program = std::string(TROUPE_EXAMPLE_PROGRAMS) + "/" + all.front();
    all.front() = "--quiet";
    return all;
  }
  all.insert(all.begin() + 1, "--json");
  if (all.front() == "parity") {
    all.back() = reference_run(all.back());
    return all;
  }
  for (std::string& word : all) {
    if (word.starts_with("jobs/")) word = TROUPE_DIGESTS "/" + word;
    if (word == "IMAGES") word = written_images("images", 402);
  }
  all.insert(all.end(), {"--device", "cpu"});
  return all;
}

/// Returns what is compared: the last digest, or the digits of a number if the program prints no digest.
std::string printed(const args& command, const std::string& output) {
  const bool has_digest =
      command.front() != "example_tensor_parallel" && command.front() != "example_parameter_averaging";
  const std::regex value(command.front() == "train"    ? R"re("weights_digest":"(\w+)")re"
                         : command.front() == "parity" ? R"re("max_weight_error":([^,]+))re"
                         : has_digest                  ? R"re(\b([0-9a-f]{16})\b)re"
                                                       : "loss ([0-9.]+)");
  std::string last;
  for (std::sregex_iterator at(output.begin(), output.end(), value), end; at != end; ++at) last = (*at)[1];
  return last;
}

void expect_digest(const recorded_run& of, const std::string& digest, launch how) {
  const outcome now = run(completed(of, how), how);
  EXPECT_EQ(now.exit_code, 0) << now.err;
  EXPECT_EQ(printed(of.command, now.out), digest);
}

class Digests : public testing::TestWithParam<recorded_run> {};

TEST_P(Digests, AreWhatTheyWereWithAvx3) {
  if (kernels::instruction_sets().front() != "AVX3") GTEST_SKIP() << "the best instruction set here is another one";
  launch how;
  how.environment = {{"OPENBLAS_CORETYPE", "SkylakeX"}};  // on other vendors' processors it would choose other kernels
  expect_digest(GetParam(), GetParam().with_avx3, how);
}

TEST_P(Digests, AreWhatTheyWereWithAvx2) {
  if (std::ranges::count(kernels::instruction_sets(), "AVX2") == 0) GTEST_SKIP() << "there is no AVX2 here";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer wants to be loaded first";
#endif
  launch how;
  // This process has set OpenBLAS's kernels by a variable.
  how.environment = {
      {"LD_PRELOAD", TROUPE_AVX2_ONLY}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"OPENBLAS_CORETYPE", "Haswell"}};
  expect_digest(GetParam(), GetParam().with_avx2, how);
}

/// The command without the characters that test names cannot have.
std::string name_of(const testing::TestParamInfo<recorded_run>& run) {
  std::string name = fmt::format("{}", fmt::join(run.param.command, "_"));
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return fmt::format("{:02}_{}", run.index, name);
}

INSTANTIATE_TEST_SUITE_P(, Digests, testing::ValuesIn(recorded_runs()), name_of);

}  // namespace
}  // namespace troupe::end_to_end::digests_test
