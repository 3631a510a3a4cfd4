// Each of the many options of `troupe train` needs a reason in tests/apps/train_options.txt.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "apps/subcommand.hpp"

namespace troupe::apps::train_options_test {
namespace {

/// Returns the reasons by option.
std::map<std::string, std::string> reasons() {
  std::map<std::string, std::string> all;
  std::ifstream file(TROUPE_TRAIN_OPTIONS);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.empty() || line.front() == '#') continue;
    EXPECT_NE(colon, std::string::npos) << "'" << line << "' is not OPTION: REASON";
    const bool is_new = all.emplace(line.substr(0, colon), line.substr(colon + 1)).second;
    EXPECT_TRUE(is_new) << line << " is given twice";
  }
  return all;
}

TEST(TrainOptions, HaveALineWithTheirReasonEach) {
  CLI::App program;
  program.set_help_flag("-h,--help", "this help");
  const subcommand train = add_train(program);
  std::set<std::string> known;
  for (const CLI::Option* option : train.app->get_options())
    for (const std::string& name : option->get_lnames()) known.insert(name);
  EXPECT_GT(known.size(), 80U);
  const auto listed = reasons();
  for (const std::string& name : known)
    EXPECT_TRUE(listed.contains(name)) << "--" << name << " is new: can the program do without it? If not, "
                                       << "write its reason into tests/apps/train_options.txt";
  for (const auto& [name, reason] : listed)
    EXPECT_TRUE(known.contains(name)) << "--" << name << " does not exist any more: remove its line from "
                                      << "tests/apps/train_options.txt";
}

}  // namespace
}  // namespace troupe::apps::train_options_test
