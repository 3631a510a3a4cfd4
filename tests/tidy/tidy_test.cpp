// Checks the rules of CONTRIBUTING.md in the sources: the width of lines, the length of files and functions, the
// includes between folders, that every header is included, and that no two types share a name; and that the tests exist
// that docs/faults.md names.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace troupe::tidy_test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t columns_max = 120;
constexpr std::size_t file_lines_max = 400;
constexpr std::size_t function_lines_max = 60;

/// Counts characters: each has one byte that does not continue a character.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Returns the project's files that a file includes, relative to the project's folder; users' programs include the
/// library by <troupe/...>.
std::vector<std::string> includes(const source& one) {
  static const std::regex of_project(R"(#include ("|<(?=troupe/))([^">]+)[">])");
  std::vector<std::string> all;
  std::smatch match;
  for (const std::string& line : one.lines)
    if (std::regex_match(line, match, of_project)) all.push_back(match[2]);
  return all;
}

TEST(Tidy, TheTableOfFoldersHasAllThatHaveSources) {
  constexpr std::size_t folders_max = 15;
  ASSERT_GT(components().size(), 15U);
  std::set<std::string> top;
  for (const auto& entry : fs::directory_iterator(TROUPE_SOURCES)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || name == "build" || name.starts_with(".")) continue;
    top.insert(name);
    if (name == "tests" || name == "bench" || name == "tools") continue;
    for (const auto& file : fs::recursive_directory_iterator(entry.path()))
      if (file.path().extension() == ".cpp" || file.path().extension() == ".hpp") {
        const std::string path = fs::relative(file.path(), TROUPE_SOURCES);
        EXPECT_TRUE(components().contains(component_of(path))) << path << " is in no folder of the table";
      }
  }
  EXPECT_LE(top.size(), folders_max);
  for (const auto& [component, uses] : components())
    for (const std::string& used : uses)
      EXPECT_TRUE(components().contains(used)) << component << " uses " << used << ", no folder";
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

/// Examples show how the library is used: its types must fit users' types.
TEST(Tidy, ExamplesHaveNoCasts) {
  static const std::regex cast(
      R"((static|reinterpret|const)_cast<|)"
      R"(\((unsigned |long |std::)*(int|long|float|double|size_t|ptrdiff_t|u?int\d+_t)\) ?[\w(]|)"
      R"((^|[^<\w:])(int|float|double|std::size_t|std::u?int\d+_t)\()");
  std::size_t lines = 0;
  for (const source& one : sources()) {
    if (one.component() != "apps/examples") continue;
    for (std::size_t i = 0; i < one.lines.size(); ++i, ++lines)
      EXPECT_FALSE(std::regex_search(one.lines[i], cast)) << place(one, i);
  }
  EXPECT_GT(lines, 1000U) << "this test is out of date";
}

TEST(Tidy, FunctionsHaveAtMost60Lines) {
  std::size_t functions = 0;
  for (const source& one : sources())
    for (const function& each : functions_of(one)) {
      EXPECT_LE(each.lines, function_lines_max) << place(one, each.first);
      ++functions;
    }
  EXPECT_GT(functions, 10000U) << "this test is out of date";
}

TEST(Tidy, AFunctionIsMeasuredFromItsSignatureHoweverThatWraps) {
  const source one{"a.cpp",
                   {"namespace a {",                              //
                    "",                                           //
                    "result<int> wrapped(const order& asked,",    //
                    "                    const place& where) {",  //
                    "  const char* text = R\"(",                  //
                    "}",                                          //
                    ")\";",                                       //
                    "#if 1",                                      //
                    "  return 1;",                                //
                    "#endif",                                     //
                    "}",                                          //
                    "",                                           //
                    "b::b(int number)",                           //
                    "    : first_(number),",                      //
                    "      second_{number} {",                    //
                    "  start();",                                 //
                    "}",                                          //
                    "",                                           //
                    "struct c {",                                 //
                    "  int d() const {",                          //
                    "    return 2;",                              //
                    "  }",                                        //
                    "};",                                         //
                    "",                                           //
                    "}  // namespace a"}};
  const auto found = functions_of(one);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].first, 2U);
  EXPECT_EQ(found[0].lines, 9U);
  EXPECT_EQ(found[1].first, 12U);
  EXPECT_EQ(found[1].lines, 5U);
  EXPECT_EQ(found[2].first, 19U);
  EXPECT_EQ(found[2].lines, 3U);
}

TEST(Tidy, FoldersIncludeOnlyWhatTheTableOfFoldersAllows) {
  arrows unused = components();
  for (const source& one : sources()) {
    if (!is_production(one)) continue;
    for (const std::string& used : includes(one)) {
      const std::string component = component_of(used);
      EXPECT_TRUE(!components().contains(component) || components().at(one.component()).contains(component))
          << one.path << " includes " << used;
      EXPECT_NE(component, "tests") << one.path << " includes " << used;
      unused[one.component()].erase(component);
    }
  }
  for (auto& [component, others] : unused)
    for (const std::string& other : others)
      EXPECT_TRUE(other == component || other == "base")
          << component << " includes nothing of " << other << ": take it from the table";
}

TEST(Tidy, FoldersIncludeEachOtherOneWay) {
  std::set<std::string> left;
  for (const auto& [component, uses] : components()) left.insert(component);
  const auto needs_another = [&](const std::string& component) {
    return std::ranges::any_of(components().at(component),
                               [&](const auto& used) { return used != component && left.contains(used); });
  };
  for (std::size_t before = 0; std::exchange(before, left.size()) != left.size();)
    std::erase_if(left, [&](const std::string& component) { return !needs_another(component); });
  for (const std::string& component : left) ADD_FAILURE() << component << " is in a cycle of folders, or includes one";
}

TEST(Tidy, EveryHeaderIsIncludedByMoreThanItsOwnSource) {
  std::map<std::string, std::set<std::string>> users;
  for (const source& one : sources())
    if (is_production(one) || one.component() == "bench")
      for (const std::string& used : includes(one)) users[used].insert(one.path.substr(0, one.path.rfind('.')));
  for (const source& one : sources()) {
    if (!one.is_header() || !is_production(one)) continue;
    std::set<std::string> others = users[one.path];
    others.erase(one.path.substr(0, one.path.rfind('.')));
    EXPECT_FALSE(others.empty()) << one.path << ": nothing includes it";
  }
}

/// The headers of nn/ and base/ that they include are installed with them (tools/cmake/public_headers.cmake); the
/// implementation (troupe/runtime/, CAF, Boost) stays within the library.
TEST(Tidy, TheLibrarysHeadersIncludeTheStandardLibraryAndEachOtherOnly) {
  static const std::regex allowed(R"(#include (<[a-z_0-9]+>|"(troupe|nn|base)/[a-z_0-9]+\.hpp"))");
  std::set<std::string> installed;
  for (const source& one : sources())
    if (one.component() == "troupe" && one.is_header() && !one.path.starts_with("troupe/runtime/"))
      installed.insert(one.path);
  EXPECT_GT(installed.size(), 10U);
  for (std::size_t before = 0; std::exchange(before, installed.size()) != installed.size();)
    for (const source& one : sources())
      if (installed.contains(one.path))
        for (const std::string& used : includes(one)) installed.insert(used);
  for (const source& one : sources()) {
    if (!installed.contains(one.path)) continue;
    for (std::size_t i = 0; i < one.lines.size(); ++i)
      EXPECT_TRUE(!one.lines[i].starts_with("#include") || std::regex_match(one.lines[i], allowed))
          << place(one, i) << ": " << one.lines[i];
  }
}

/// Two types of one name make a program ill-formed, and neither compiler nor linker reports it.
TEST(Tidy, NoTwoTypesOfHeadersHaveOneName) {
  static const std::regex component(R"(namespace ([a-z_:]+) *\{.*)");
  static const std::regex type(R"((class|struct|union|enum|enum class) ([a-z_0-9]+)( final)?( :[^:].*)? *\{.*)");
  std::map<std::string, std::string> where;
  std::smatch match;
  for (const source& one : sources()) {
    if (!one.is_header() || !is_production(one)) continue;
    std::string scope;
    for (std::size_t i = 0; i < one.lines.size(); ++i) {
      if (std::regex_match(one.lines[i], match, component)) scope = match[1];
      if (!std::regex_match(one.lines[i], match, type)) continue;
      const auto [other, is_new] = where.emplace(scope + "::" + match[2].str(), place(one, i));
      EXPECT_TRUE(is_new) << other->first << " is defined at " << place(one, i) << " and at " << other->second;
    }
  }
  EXPECT_GT(where.size(), 300U) << "this test is out of date";
}

/// Each row names files below tests/, each followed by its tests.
TEST(Tidy, TheTestsThatTheTableOfFaultsNamesExist) {
  static const std::regex test(R"((TYPED_)?TEST(_F|_P)?\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)\).*)");
  static const std::regex row(R"(\| (\d+) \|.*)");
  static const std::regex name(R"(`(([a-z_]+/[a-z_0-9]+_test)|([A-Z][A-Za-z0-9]+\.[A-Z][A-Za-z0-9]+))`)");
  std::set<std::string> known;
  std::smatch match;
  for (const source& one : sources())
    for (const std::string& line : one.lines)
      if (one.component() == "tests" && std::regex_match(line, match, test))
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
  EXPECT_EQ(rows, 66U);
}

}  // namespace
}  // namespace troupe::tidy_test
