// Runs the tests; or, with options, a simulation:
//
//   --seed N [--faults none | NUMBER,...]   one seed, with all or some of its faults, and a log of each step
//   --from N --count N                      many seeds
//   --from N --seconds N                    as many seeds as the time allows
//   --plant old-messages | old-rows | no-sync-of-files | no-sync-of-folders   with a bug
//
// Exit status 1: a seed fails.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "base/number.hpp"
#include "base/text.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "tests/simulation/trial.hpp"

namespace troupe::simulation {
namespace {

using option_texts = std::map<std::string, std::string>;

std::uint64_t number_of(const option_texts& given, const std::string& name, std::uint64_t otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : parse_number<std::uint64_t>(found->second).value_or(otherwise);
}

planted_bugs planted_of(const option_texts& given) {
  const auto found = given.find("--plant");
  const std::string which = found == given.end() ? "" : found->second;
  return {which == "old-messages", which == "old-rows",
          which == "no-sync-of-files"     ? forgotten_sync::of_files
          : which == "no-sync-of-folders" ? forgotten_sync::of_folders
                                          : forgotten_sync::none};
}

int tell_one(const references& known, const option_texts& given) {
  const std::uint64_t seed = number_of(given, "--seed", 1);
  std::optional<std::vector<std::size_t>> kept;
  if (const auto faults = given.find("--faults"); faults != given.end()) {
    kept.emplace();
    std::size_t at = 0;
    while (at < faults->second.size() && faults->second != "none") {
      const std::size_t end = std::min(faults->second.find(',', at), faults->second.size());
      if (const auto one = parse_number<std::size_t>(faults->second.substr(at, end - at))) kept->push_back(*one);
      at = end + 1;
    }
  }
  const trial made = try_scenario(known, scenario_of(known, seed, planted_of(given), kept), true);
  fmt::print("seed {}: {}; {} attempts, {} steps, fingerprint {:016x}\n", seed,
             made.problem.empty() ? "sound" : made.problem, made.run.attempts, made.run.steps, made.run.fingerprint);
  return made.problem.empty() ? 0 : 1;
}

int try_many(const references& known, const option_texts& given) {
  using real_clock = std::chrono::system_clock;
  const std::uint64_t first = number_of(given, "--from", 1);
  const std::uint64_t count = number_of(given, "--count", UINT64_MAX - first);
  const std::chrono::seconds time(number_of(given, "--seconds", 1'000'000'000));
  const auto begin = real_clock::now();
  const planted_bugs planted = planted_of(given);
  std::uint64_t failed = 0;
  std::uint64_t seed = first;
  std::map<std::uint32_t, std::uint64_t> attempts;
  for (; seed - first < count && real_clock::now() - begin < time && failed < 20; ++seed) {
    const trial made = try_scenario(known, scenario_of(known, seed, planted));
    ++attempts[made.run.attempts];
    if (made.problem.empty()) continue;
    ++failed;
    fmt::print("{}", report(known, seed, planted));
    std::fflush(stdout);
  }
  const std::chrono::duration<double> took = real_clock::now() - begin;
  fmt::print("seeds {} to {}: {} fail; {:.1f} s, {:.1f} ms a seed\n", first, seed - 1, failed, took.count(),
             1000 * took.count() / static_cast<double>(std::max<std::uint64_t>(seed - first, 1)));
  for (const auto& [number, seeds] : attempts) fmt::print("  {} attempts: {}\n", number, seeds);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace troupe::simulation

int main(int argc, char** argv) {
  using namespace troupe::simulation;
  troupe::nodes::initialize_network_types();
  option_texts given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  if (!given.contains("--seed") && !given.contains("--count") && !given.contains("--seconds")) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  const references known;
  return given.contains("--seed") ? tell_one(known, given) : try_many(known, given);
}
