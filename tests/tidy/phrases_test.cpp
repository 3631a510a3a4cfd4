// Phrases that comments, documents and errors do without: for most of them plain English has a verb. What there still
// is of them is counted in tests/tidy/phrases.txt, for each phrase and folder, and may only become less.
// TROUPE_COUNT_PHRASES=1 writes there what has become less; all of it if the file is not there.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
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

/// How often, and where, by phrase and folder.
using counts = std::map<std::pair<std::string, std::string>, std::size_t>;
using places = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;

const fs::path& counted_file() {
  static const fs::path path = fs::path(TROUPE_SOURCES) / "tests/tidy/phrases.txt";
  return path;
}

/// Reads a file as prose, if people read it.
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
  if (name.starts_with("tests/tidy/")) return;  // which has to name them
  const auto text = read(path);
  if (!text) return;
  const auto slash = name.find('/');
  const std::string folder = slash == std::string::npos ? "." : name.substr(0, slash);
  for (const phrase& one : phrases)
    for (const std::size_t line : text->lines_with(one.text))
      found[{one.text, folder}].push_back(name + ":" + std::to_string(line));
}

places find_phrases() {
  places found;
  std::vector<std::string> folders = {"tests", "bench", "fuzz", "docs", "tools", "cmake"};
  for (const auto& [room, uses] : rooms()) folders.push_back(room);
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TROUPE_SOURCES) / folder))
      if (entry.is_regular_file()) find_phrases(entry.path(), found);
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCES))
    if (entry.is_regular_file()) find_phrases(entry.path(), found);
  return found;
}

/// A line for each phrase, `PHRASE: FOLDER COUNT, FOLDER COUNT`.
counts read_counts() {
  counts all;
  for (const std::string& line : lines_of(counted_file())) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::istringstream rest(line.substr(colon + 2));
    std::string folder;
    for (std::size_t count = 0; rest >> folder >> count; rest.ignore(1)) all[{line.substr(0, colon), folder}] = count;
  }
  return all;
}

void write_counts(const counts& all) {
  std::ofstream file(counted_file());
  std::string last;
  for (const auto& [where, count] : all) {
    if (count == 0) continue;
    file << (where.first == last ? ", " : (last.empty() ? "" : "\n") + where.first + ": ");
    file << where.second << " " << count;
    last = where.first;
  }
  file << "\n";
}

std::size_t count_of(const counts& all, const counts::key_type& where) {
  const auto found = all.find(where);
  return found == all.end() ? 0 : found->second;
}

TEST(Phrases, BecomeFewerInCommentsDocumentsAndErrors) {
  const places found = find_phrases();
  counts kept = read_counts();
  if (std::getenv("TROUPE_COUNT_PHRASES") != nullptr) {
    const bool is_new = kept.empty();
    for (const auto& [where, lines] : found)
      if (is_new) kept[where] = lines.size();
    for (auto& [where, count] : kept) {
      const auto now = found.find(where);
      count = std::min(count, now == found.end() ? 0 : now->second.size());
    }
    write_counts(kept);
  }
  for (const phrase& one : phrases)
    for (const auto& [where, lines] : found) {
      const std::size_t before = count_of(kept, where);
      if (where.first != one.text || lines.size() <= before) continue;
      std::string all;
      for (const std::string& line : lines) all += "\n  " + line;
      ADD_FAILURE() << "'" << one.text << "' stands in " << where.second << "/ " << lines.size() << " times, where "
                    << before << " are left of old; write " << one.instead << " instead:" << all;
    }
  for (const auto& [where, count] : kept) {
    const auto now = found.find(where);
    const std::size_t left = now == found.end() ? 0 : now->second.size();
    EXPECT_GE(left, count) << "'" << where.first << "' stands in " << where.second << "/ " << left
                           << " times only: write so into tests/tidy/phrases.txt, or run this test with "
                              "TROUPE_COUNT_PHRASES=1, which does it";
  }
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
