// The language model of apps/examples/rnn.cpp: its losses compared with a PyTorch run in float64, its final loss with
// the entropy of its grammar, and its state, which must be the same after a killed run.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/example_output.hpp"
#include "tests/library/killed_example.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/safetensors.hpp"

namespace troupe::rnn_example_test {
namespace {

using test::output_of;

/// Returns the lines of a run's output that begin with `begin`, without that prefix.
std::vector<std::string> lines_of(const std::string& output, const std::string& begin) {
  std::vector<std::string> found;
  std::istringstream from(output);
  for (std::string line; std::getline(from, line);)
    if (line.starts_with(begin)) found.push_back(line.substr(begin.size()));
  return found;
}

/// Returns the losses that a run reports.
std::vector<double> losses_of(const std::string& output) {
  std::vector<double> losses;
  for (const std::string& line : lines_of(output, "chunk ")) {
    unsigned long long chunk = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "%llu: loss %lf", &chunk, &losses.emplace_back()), 2) << line;
  }
  return losses;
}

TEST(RnnExample, HasPyTorchsLosses) {
  const std::string file = std::string(TROUPE_REFERENCE_RUNS) + "/rnn/rnn.safetensors";
  std::vector<double> expected;
  for (const auto& [name, numbers] : load_safetensors(file))
    if (name == "loss") expected.assign(numbers.as<double>().begin(), numbers.as<double>().end());
  ASSERT_EQ(expected.size(), 40U);
  const std::string output = output_of("rnn", "--chunks 40 --report 1 --start " + file);
  const std::vector<double> losses = losses_of(output);
  ASSERT_EQ(losses.size(), 40U) << output;
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << "chunk " << i;
}

/// Whether `words` is a sentence of the grammar.
bool is_sentence(const std::string& text) {
  static const std::set<std::string> verbs = {"sees", "hears", "runs", "sleeps", "see", "hear", "run", "sleep"};
  const auto is_many = [](const std::string& noun) { return noun == "cats" || noun == "dogs"; };
  const auto is_noun = [&](const std::string& one) { return one == "cat" || one == "dog" || is_many(one); };
  std::istringstream from(text);
  std::string subject, verb, object, joint, pronoun, last, end, more;
  from >> subject >> verb >> object >> joint >> pronoun >> last >> end;
  if (from >> more || !is_noun(subject) || !is_noun(object) || !verbs.contains(verb) || !verbs.contains(last))
    return false;
  const bool many = is_many(subject);
  const std::string root = many ? verb : verb.substr(0, verb.size() - 1);
  const std::string last_root = many ? last : last.substr(0, last.size() - 1);
  return (root == "see" || root == "hear") && (last_root == "run" || last_root == "sleep") && joint == "and" &&
         pronoun == (many ? "they" : "it") && end == ".";
}

TEST(RnnExample, ComesDownToTheEntropyOfItsGrammar) {
  const std::string output = output_of("rnn");
  const std::vector<double> losses = losses_of(output);
  ASSERT_EQ(losses.size(), 10U) << output;
  // A sentence of 7 words is one of 64. A model that does not remember the subject's number is off by far more than 2
  // %: the pronoun alone costs one bit per sentence, a sixth of all.
  const double entropy = std::log(64.0) / 7;
  EXPECT_GT(losses.front(), 2 * entropy);
  EXPECT_GT(losses.back(), entropy);
  EXPECT_LT(losses.back(), 1.02 * entropy);
  const auto written = lines_of(output, "it writes: ");
  ASSERT_EQ(written.size(), 1U) << output;
  EXPECT_TRUE(is_sentence(written[0])) << written[0];
  EXPECT_EQ(output_of("rnn", "--processes"), output);
  EXPECT_EQ(output_of("rnn", "--threads 1"), output);
}

TEST(RnnExample, KilledAndResumedHasTheOutputOfTheUnbrokenRun) {
  const trace::temporary_folder folder;
  const auto saved = folder.path() / "run";
  test::run_and_kill("rnn", saved);
  const std::string resumed = output_of("rnn", "--resume " + saved.string());
  const std::string whole = output_of("rnn");
  // What was reported before the kill is not reported again.
  EXPECT_FINDS(resumed, " after 700 steps");
  EXPECT_TRUE(whole.ends_with(resumed)) << whole << resumed;
}

TEST(RnnExample, RefusesWhatItCannotDo) {
  EXPECT_FINDS(output_of("rnn", "--report 0 2>&1"), "--report 0: must be a whole number between 1 and 1000000");
}

}  // namespace
}  // namespace troupe::rnn_example_test
