// Phrases that comments, documents and errors do without: plain English has a verb for most of them. Files that use one
// in another sense are listed in tests/tidy/phrases.txt with that sense.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/tidy/prose.hpp"
#include "tests/tidy/sources.hpp"

namespace troupe::tidy_test {
namespace {

namespace fs = std::filesystem;

struct phrase {
  const char* text;
  const char* instead;
};

constexpr phrase phrases[] = {
    {"Of who", "a subject: 'Trainers without data ...'"},
    {"Of what", "a subject and a verb"},
    {"That of", "the noun itself"},
    {"Those of", "the noun itself"},
    {"Who takes", "the actor's name, or 'an actor that'"},
    {"are none", "'does not', 'without'"},
    {"goes on", "'continues'"},
    {"in hand", "'active', 'held', 'being handled'"},
    {"is none", "'does not', 'without'"},
    {"lets go", "'releases'"},
    {"nobody", "'no trainer', 'nothing', 'unused'"},
    {"stand by", "'join without data', 'wait'"},
    {"stands by", "'joins without data', 'waits'"},
    {"tells", "'says', 'reports'"},
    {"whoever", "'the actor that', 'any process that'"},
    {"whom", "'which', 'the receiver'"},
    {"words", "'text', 'message'"},
};

/// Lines, FILE:LINE, by phrase and file.
using places = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;

/// Reads a file as prose; null if its kind is not read by people.
std::optional<prose> read(const fs::path& path) {
  constexpr std::string_view code[] = {".cpp", ".hpp", ".cu", ".inc", ".js"};
  constexpr std::string_view documents[] = {".md", ".sh", ".cmake", ".html", ".in"};
  const std::string kind = path.extension();
  const bool is_code = std::ranges::find(code, kind) != std::end(code);
  const bool is_document = std::ranges::find(documents, kind) != std::end(documents);
  if (!is_code && !is_document && path.filename() != "CMakeLists.txt") return std::nullopt;
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return is_code ? prose::of_code(content.str()) : prose::of_document(content.str());
}

void find_phrases(const fs::path& path, places& found) {
  const std::string name = fs::relative(path, TROUPE_SOURCES);
  if (name.starts_with("tests/tidy/")) return;  // these tests must name the phrases
  const auto text = read(path);
  if (!text) return;
  for (const phrase& one : phrases)
    for (const std::size_t line : text->lines_with(one.text))
      found[{one.text, name}].push_back(name + ":" + std::to_string(line));
}

places find_phrases() {
  places found;
  std::vector<std::string> folders = {"tests", "bench", "docs", "tools"};
  for (const auto& [component, uses] : components()) folders.push_back(component);
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TROUPE_SOURCES) / folder))
      if (entry.is_regular_file()) find_phrases(entry.path(), found);
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCES))
    if (entry.is_regular_file()) find_phrases(entry.path(), found);
  return found;
}

/// Reads a line for each phrase and file, `PHRASE: FILE: SENSE`.
std::set<std::pair<std::string, std::string>> read_other_senses() {
  std::set<std::pair<std::string, std::string>> all;
  for (const std::string& line : lines_of(fs::path(TROUPE_SOURCES) / "tests/tidy/phrases.txt")) {
    const auto first = line.find(": "), second = line.find(": ", first + 2);
    if (second == std::string::npos)
      ADD_FAILURE() << "'" << line << "' is not PHRASE: FILE: SENSE";
    else
      all.emplace(line.substr(0, first), line.substr(first + 2, second - first - 2));
  }
  return all;
}

TEST(Phrases, AreInNoCommentDocumentOrError) {
  auto others = read_other_senses();
  for (const auto& [where, lines] : find_phrases()) {
    if (others.erase(where) == 1) continue;
    std::string all;
    for (const std::string& line : lines) all += "\n  " + line;
    const auto known = std::ranges::find(phrases, where.first, &phrase::text);
    ADD_FAILURE() << "'" << where.first << "': write " << known->instead << " instead:" << all;
  }
  for (const auto& [text, file] : others)
    ADD_FAILURE() << "'" << text << "' is not in " << file << ": delete the line from tests/tidy/phrases.txt";
}

TEST(Prose, IsCommentsAndTextsOfCodeAndNotItsNames) {
  const prose all = prose::of_code(
      "int words = 1'000;  // it goes\n"
      "                    /// on here\n"
      "say(\"the word\"\n"
      "    \"s\", 'x', words);\n"
      "/* lets\n"
      " go */ lets(go);\n"
      "const char* raw = R\"(\" that goes on)\";\n"
      "\"in\", hand;\n");
  EXPECT_EQ(all.lines_with("goes on"), (std::vector<std::size_t>{1, 7}));
  EXPECT_EQ(all.lines_with("words"), std::vector<std::size_t>{3});
  EXPECT_EQ(all.lines_with("lets go"), std::vector<std::size_t>{5});
  EXPECT_EQ(all.lines_with("in hand"), std::vector<std::size_t>{});
}

TEST(Prose, OfADocumentEndsAtABlankLine) {
  const prose all = prose::of_document("It is\nnone of\n\nthat, and is\n\nnone. Whom, whomever.\n");
  EXPECT_EQ(all.lines_with("is none"), std::vector<std::size_t>{1});
  EXPECT_EQ(all.lines_with("of that"), std::vector<std::size_t>{});
  EXPECT_EQ(all.lines_with("whom"), std::vector<std::size_t>{6});
}

}  // namespace
}  // namespace troupe::tidy_test
