// Classes of actors have few fields: a class that needs more should be several classes.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace troupe::tidy_test::fields_test {
namespace {

constexpr std::size_t fields_max = 20;

std::size_t indent(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// Returns code without template arguments, initializers and comments.
std::string bare(std::string code) {
  static const std::regex innermost("<[^<>]*>");
  while (std::regex_search(code, innermost)) code = std::regex_replace(code, innermost, "");
  for (const char* end : {" = ", "{"}) code = code.substr(0, code.find(end));
  return code;
}

/// Returns whether a statement in a class declares a field.
bool is_field(const std::string& statement) {
  static const std::regex other(
      "^(using|friend|static|typedef|template|enum|class|struct|explicit|virtual|return)\\b.*");
  static const std::regex declaration(R"([A-Za-z_][^()]*[ &*>]([a-z_0-9]+)(\[.*\])?;?)");
  return !std::regex_match(statement, other) && std::regex_match(bare(statement), declaration);
}

/// Returns the fields of the class that begins on `begin`, of a file formatted by clang-format: nested classes and
/// functions' bodies are indented further.
std::size_t fields_of(const source& one, std::vector<std::string>::const_iterator begin) {
  const std::string end = std::string(indent(*begin), ' ') + "};";
  const std::size_t inside = indent(*begin) + 2;
  std::size_t fields = 0;
  std::string statement;
  for (auto line = std::next(begin); line != one.lines.end() && *line != end; ++line) {
    const std::string code = line->substr(0, line->find("//"));
    const std::size_t at = indent(code);
    if (at == inside) statement.clear();
    if (at >= inside && at < code.size()) statement += (statement.empty() ? "" : " ") + code.substr(at);
    while (statement.ends_with(' ')) statement.pop_back();
    if (!statement.ends_with(';')) continue;
    if (is_field(statement)) ++fields;
    statement = "using";  // lines that are indented further belong to it
  }
  return fields;
}

/// Returns the number of fields of each class of a component's sources, by name.
std::map<std::string, std::size_t> classes_of(const std::string& folder) {
  static const std::regex begin(R"( *(?:class|struct) ([a-z_0-9:]+)[^;(]*\{)");
  std::map<std::string, std::size_t> all;
  std::smatch match;
  for (const source& one : sources()) {
    if (!one.path.starts_with(folder)) continue;
    for (auto line = one.lines.begin(); line != one.lines.end(); ++line)
      if (std::regex_match(*line, match, begin)) all[match[1]] = std::max(all[match[1]], fields_of(one, line));
  }
  return all;
}

TEST(Fields, AreCountedInWhatClangFormatLaysOut) {
  const source made{"made.hpp",
                    {"class one {",
                     " public:",
                     "  explicit one(int a);",
                     "  int f() const { return a_; }",
                     "",
                     "  struct inner {",
                     "    int x = 0;",
                     "  };",
                     "",
                     " private:",
                     "  enum class kind { a, b };",
                     "  void g(",
                     "      int long_one);",
                     "  int a_ = 1;  ///< is (counted)",
                     "  std::function<void(int)> b_;",
                     "  std::map<int,",
                     "           int> c_;",
                     "  int& d_;",
                     "  kept e_{a_};",
                     "  using x = int;",
                     "};",
                     "int after;"}};
  EXPECT_EQ(fields_of(made, made.lines.begin()), 5U);
  EXPECT_EQ(fields_of(made, made.lines.begin() + 5), 1U);
}

TEST(Fields, OfClassesOfActorsAreAtMostTwenty) {
  std::size_t classes = 0;
  for (const char* folder : {"actors/", "troupe/runtime/"})
    for (const auto& [name, fields] : classes_of(folder)) {
      ++classes;
      EXPECT_LE(fields, fields_max) << name;
    }
  EXPECT_GT(classes, 200U) << "this test is out of date";
}

}  // namespace
}  // namespace troupe::tidy_test::fields_test
