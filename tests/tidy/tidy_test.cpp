// What CONTRIBUTING.md promises of the sources, read from the sources themselves: the width of lines, the length of
// files and functions, which room uses which, headers that nobody includes, and types that have one name; and that the
// tests exist that docs/faults.md names.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tidy_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t columns_max = 120;
constexpr std::size_t file_lines_max = 400;
constexpr std::size_t function_lines_max = 70;

struct source {
  std::string path;  // below the project's folder
  std::vector<std::string> lines;

  std::string room() const { return path.substr(0, path.find('/')); }
  bool is_header() const { return path.ends_with(".hpp"); }
};

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// A room's name, and the rooms that it may use, as CONTRIBUTING.md's table has them.
using arrows = std::map<std::string, std::set<std::string>>;

std::vector<std::string> quoted(const std::string& cell) {
  static const std::regex name("`([a-z_]+)/?`");
  std::vector<std::string> all;
  for (std::sregex_iterator i(cell.begin(), cell.end(), name), end; i != end; ++i) all.push_back((*i)[1]);
  return all;
}

arrows read_arrows() {
  static const std::regex row(R"(\| (`[a-z_]+/`) \|.*\| ([^|]+) \|)");
  arrows all;
  std::smatch match;
  for (const std::string& line : lines_of(TROUPE_SOURCES "/CONTRIBUTING.md"))
    if (std::regex_match(line, match, row)) {
      const std::string room = quoted(match[1]).at(0);
      const auto used = quoted(match[2]);
      std::set<std::string>& may_use = all[room];
      if (match[2] == "all of them")
        for (const auto& [other, uses] : all) may_use.insert(other);
      may_use.insert(used.begin(), used.end());
      may_use.insert({"base", room});
    }
  // A room may use what those use that it may use. Five times is deeper than the rooms are.
  for (int i = 0; i < 5; ++i)
    for (auto& [room, may_use] : all)
      for (const std::string& used : std::set<std::string>(may_use))
        if (all.contains(used)) may_use.insert(all[used].begin(), all[used].end());
  return all;
}

const arrows& rooms() {
  static const arrows all = read_arrows();
  return all;
}

std::vector<source> read_sources() {
  std::vector<std::string> folders = {"tests", "bench", "fuzz"};
  for (const auto& [room, uses] : rooms()) folders.push_back(room);
  std::vector<source> all;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TROUPE_SOURCES) / folder)) {
      const std::string kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".hpp" && kind != ".cu") continue;
      all.push_back({fs::relative(entry.path(), TROUPE_SOURCES), lines_of(entry.path())});
    }
  std::ranges::sort(all, {}, &source::path);
  return all;
}

const std::vector<source>& sources() {
  static const std::vector<source> all = read_sources();
  return all;
}

bool is_production(const source& one) { return rooms().contains(one.room()); }

/// Characters, of which each has one byte that does not go on with another.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string place(const source& one, std::size_t line) { return one.path + ":" + std::to_string(line + 1); }

/// What a file includes of the project, below the project's folder; users' programs include the library by
/// <troupe/...>.
std::vector<std::string> includes(const source& one) {
  static const std::regex of_project(R"(#include ("|<(?=troupe/))([^">]+)[">])");
  std::vector<std::string> all;
  std::smatch match;
  for (const std::string& line : one.lines)
    if (std::regex_match(line, match, of_project)) all.push_back(match[2]);
  return all;
}

std::size_t indent(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// Whether a line that ends with a brace opens something other than a function.
bool opens_scope(const std::string& line) {
  static const std::regex scope(R"( *(template <.*> )?(inline )?(namespace|class|struct|union|enum|extern "C")\b.*)");
  return std::regex_match(line, scope) || line.ends_with("= {") || line.ends_with("={");
}

/// Whether a line opens the body of a function at the namespace's or a class's level, as clang-format lays it out.
bool opens_function(const std::string& line) {
  return indent(line) <= 4 && line.ends_with("{") && line.find(')') != std::string::npos && !opens_scope(line) &&
         line.find("](") == std::string::npos && line.find("[=]") == std::string::npos;
}

/// The spaces before the brace that closes it: a constructor's initialisers are further in than its name.
std::size_t indent_of_end(const std::string& line) {
  return line.find(": ") == indent(line) ? indent(line) - 4 : indent(line);
}

TEST(Tidy, TheTableOfRoomsHasAllFoldersOfSources) {
  ASSERT_GT(rooms().size(), 8U);
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCES)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || name == "build" || name.starts_with(".")) continue;
    const auto is_source = [](const fs::directory_entry& file) { return file.path().extension() == ".cpp"; };
    if (std::any_of(fs::recursive_directory_iterator(entry.path()), {}, is_source)) folders.insert(name);
  }
  for (const char* other : {"tests", "bench", "fuzz", "cmake"}) folders.erase(other);
  for (const std::string& folder : folders) EXPECT_TRUE(rooms().contains(folder)) << folder << " is not in the table";
  for (const auto& [room, uses] : rooms())
    for (const std::string& used : uses) EXPECT_TRUE(rooms().contains(used)) << room << " uses " << used << ", no room";
}

TEST(Tidy, LinesHaveAtMost120Columns) {
  for (const source& one : sources()) {
    bool is_laid_out = true;
    for (std::size_t i = 0; i < one.lines.size(); ++i) {
      if (one.lines[i].find("clang-format off") != std::string::npos) is_laid_out = false;
      if (one.lines[i].find("clang-format on") != std::string::npos) is_laid_out = true;
      EXPECT_TRUE(!is_laid_out || columns(one.lines[i]) <= columns_max) << place(one, i);
    }
  }
}

TEST(Tidy, FilesHaveAtMost400Lines) {
  for (const source& one : sources()) EXPECT_LE(one.lines.size(), file_lines_max) << one.path;
}

TEST(Tidy, FunctionsHaveAtMost70Lines) {
  std::size_t functions = 0;
  for (const source& one : sources())
    for (std::size_t begin = 0; begin < one.lines.size(); ++begin) {
      if (!opens_function(one.lines[begin])) continue;
      const std::string end = std::string(indent_of_end(one.lines[begin]), ' ') + "}";
      const auto last = std::find_if(one.lines.begin() + static_cast<std::ptrdiff_t>(begin), one.lines.end(),
                                     [&end](const std::string& line) { return line.starts_with(end); });
      const auto length = static_cast<std::size_t>(last - one.lines.begin()) - begin;
      EXPECT_LE(length, function_lines_max) << place(one, begin);
      ++functions;
    }
  EXPECT_GT(functions, 3000U) << "this test is out of date";
}

TEST(Tidy, RoomsUseOnlyWhatTheTableOfRoomsAllows) {
  for (const source& one : sources()) {
    if (!is_production(one)) continue;
    for (const std::string& used : includes(one)) {
      const std::string room = used.substr(0, used.find('/'));
      EXPECT_TRUE(!rooms().contains(room) || rooms().at(one.room()).contains(room)) << one.path << " includes " << used;
      EXPECT_NE(room, "tests") << one.path << " includes " << used;
    }
  }
}

TEST(Tidy, EveryHeaderIsIncludedByMoreThanItsOwnSource) {
  std::map<std::string, std::set<std::string>> users;
  for (const source& one : sources())
    if (is_production(one) || one.room() == "bench")
      for (const std::string& used : includes(one)) users[used].insert(one.path.substr(0, one.path.rfind('.')));
  for (const source& one : sources()) {
    if (!one.is_header() || !is_production(one)) continue;
    std::set<std::string> others = users[one.path];
    others.erase(one.path.substr(0, one.path.rfind('.')));
    EXPECT_FALSE(others.empty()) << one.path << ": nobody includes it";
  }
}

/// They are installed alone: what is behind them (troupe/runtime/, CAF, Boost) stays within the library.
TEST(Tidy, TheLibrarysHeadersIncludeTheStandardLibraryAndEachOtherOnly) {
  static const std::regex allowed(R"(#include (<[a-z_0-9]+>|"troupe/[a-z_]+\.hpp"))");
  std::size_t headers = 0;
  for (const source& one : sources()) {
    if (one.room() != "troupe" || !one.is_header() || one.path.starts_with("troupe/runtime/")) continue;
    ++headers;
    for (std::size_t i = 0; i < one.lines.size(); ++i)
      EXPECT_TRUE(!one.lines[i].starts_with("#include") || std::regex_match(one.lines[i], allowed))
          << place(one, i) << ": " << one.lines[i];
  }
  EXPECT_GT(headers, 10U);
}

/// A program with two types of one name is none by the rules of C++, and neither compiler nor linker says so.
TEST(Tidy, NoTwoTypesOfHeadersHaveOneName) {
  static const std::regex room(R"(namespace ([a-z_:]+) *\{.*)");
  static const std::regex type(R"((class|struct|union|enum|enum class) ([a-z_0-9]+)( final)?( :[^:].*)? *\{.*)");
  std::map<std::string, std::string> where;
  std::smatch match;
  for (const source& one : sources()) {
    if (!one.is_header() || !is_production(one)) continue;
    std::string scope;
    for (std::size_t i = 0; i < one.lines.size(); ++i) {
      if (std::regex_match(one.lines[i], match, room)) scope = match[1];
      if (!std::regex_match(one.lines[i], match, type)) continue;
      const auto [other, is_new] = where.emplace(scope + "::" + match[2].str(), place(one, i));
      EXPECT_TRUE(is_new) << other->first << " is defined at " << place(one, i) << " and at " << other->second;
    }
  }
  EXPECT_GT(where.size(), 300U) << "this test is out of date";
}

/// Each row names files below tests/, and after each the tests in it.
TEST(Tidy, TheTestsThatTheTableOfFaultsNamesExist) {
  static const std::regex test(R"((TYPED_)?TEST(_F|_P)?\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\).*)");
  static const std::regex row(R"(\| (\d+) \|.*)");
  static const std::regex name(R"(`(([a-z_]+/[a-z_0-9]+_test)|([A-Z][A-Za-z0-9]+\.[A-Z][A-Za-z0-9]+))`)");
  std::set<std::string> known;
  std::smatch match;
  for (const source& one : sources())
    for (const std::string& line : one.lines)
      if (one.room() == "tests" && std::regex_match(line, match, test))
        known.insert(one.path + " " + match[3].str() + "." + match[4].str());
  std::size_t rows = 0;
  for (const std::string& line : lines_of(TROUPE_SOURCES "/docs/faults.md")) {
    std::string file;
    std::size_t named = 0;
    for (std::sregex_iterator i(line.begin(), line.end(), name), end; i != end; ++i) {
      if ((*i)[2].matched) file = "tests/" + (*i)[2].str() + ".cpp";
      if (!(*i)[3].matched) continue;
      EXPECT_TRUE(known.contains(file + " " + (*i)[3].str())) << (*i)[3] << " is not in " << file;
      ++named;
    }
    if (!std::regex_match(line, match, row)) continue;
    EXPECT_EQ(match[1], std::to_string(++rows));
    EXPECT_GT(named, 0U) << line;
  }
  EXPECT_EQ(rows, 60U);
}

}  // namespace
}  // namespace troupe::tidy_test
