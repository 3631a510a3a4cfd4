// Goal: on a terminal the run shows one line that is redrawn in place, and fits. Method: standard error is a
// pseudo-terminal of a given width.

#include <gtest/gtest.h>

#include <csignal>
#include <regex>

#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end::terminal_test {
namespace {

const std::vector<std::string> adult = {"train", "--epochs", "1000"};

launch on_terminal(unsigned short columns) {
  launch how;
  how.terminal_columns = columns;
  how.environment = {{"TERM", "xterm-256color"}, {"NO_COLOR", ""}, {"COLUMNS", ""}};
  return how;
}

/// The terminal's contents after each redraw, without control sequences.
std::vector<std::string> redraws(const std::string& text) {
  const std::string plain = std::regex_replace(text, std::regex("\x1b\\[[0-9;]*[A-Za-z]"), "");
  std::vector<std::string> all(1);
  for (const char c : plain) {
    if (c == '\r' || c == '\n') {
      if (!all.back().empty()) all.emplace_back();
    } else {
      all.back() += c;
    }
  }
  return all;
}

/// Runs until the live line shows `text`, then stops the run.
outcome run_until_shown(const std::string& text, const launch& how, std::vector<std::string> arguments = adult) {
  program running(arguments, how);
  EXPECT_TRUE(running.wait_for_error(text)) << text;
  running.send(SIGTERM);
  outcome result = running.finish();
  EXPECT_EQ(result.exit_code, 0);
  return result;
}

TEST(Terminal, ShowsBarEpochLossAucAndTimeLeft) {
  const outcome result = run_until_shown("AUC", on_terminal(120));
  const std::regex whole(
      "\\[#*-*\\] +[0-9]+%  epoch [0-9,]+/1,000  step [0-9,]+/[0-9,]+  loss [0-9.]+  AUC 0\\.[0-9]+  "
      "[0-9.]+[kMG]? samples/s  [0-9:]+ left");
  bool found = false;
  for (const std::string& line : redraws(result.err)) found = found || std::regex_match(line, whole);
  EXPECT_TRUE(found) << result.err;
}

TEST(Terminal, EveryRedrawFits) {
  for (const unsigned short columns : {80, 40, 20, 3}) {
    // A drawn line ends with this sequence.
    const outcome result = run_until_shown("\x1b[K", on_terminal(columns));
    for (const std::string& line : redraws(result.err)) {
      const bool is_note = line.rfind("troupe: ", 0) == 0;
      EXPECT_TRUE(is_note || line.size() < columns) << line;
    }
  }
}

TEST(Terminal, IsLeftWithoutTheLine) {
  const outcome result = run_until_shown("loss", on_terminal(80));
  const std::string cleared = "\r\x1b[K";
  ASSERT_GE(result.err.size(), cleared.size());
  EXPECT_EQ(result.err.substr(result.err.size() - cleared.size()), cleared);
  EXPECT_FINDS(result.out, "weights digest");
}

TEST(Terminal, SaysThatItStops) {
  const outcome result = run_until_shown("loss", on_terminal(80));
  EXPECT_FINDS(result.err, "troupe: stopping");
}

TEST(Terminal, ColorsOnlyWhereTheyAreWelcome) {
  launch how = on_terminal(80);
  const std::regex color("\x1b\\[[0-9;]*m");
  EXPECT_TRUE(std::regex_search(run_until_shown("left", how).err, color));
  how.environment[1].second = "1";
  EXPECT_FALSE(std::regex_search(run_until_shown("left", how).err, color));
}

TEST(Terminal, ThatCannotRedrawGetsPlainLines) {
  launch how = on_terminal(80);
  how.environment[0].second = "dumb";
  const outcome result = run_until_shown("troupe: epoch 1: ", how);
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
}

TEST(Terminal, StaysEmptyWithQuiet) {
  const outcome result = run({"train", "--data", "tutorial", "--quiet"}, on_terminal(80));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(Terminal, ShowsProgressBesideJsonLinesInAPipe) {
  std::vector<std::string> arguments = adult;
  arguments.push_back("--json");
  const outcome result = run_until_shown("left", on_terminal(80), arguments);
  EXPECT_FALSE(last_event(result, "done").empty());
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace troupe::end_to_end::terminal_test
