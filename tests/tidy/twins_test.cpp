// One type for one thing: components share it, instead of translating between their own types field by field.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/sources.hpp"

namespace troupe::tidy_test::twins_test {
namespace {

enum class kind { enumeration, structure };

/// A type with the names of its enumerators or fields.
struct definition {
  kind is;
  std::string name;
  std::string component;
  std::set<std::string> members;
};

std::size_t indent(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

void add_members(const std::string& line, definition& to) {
  static const std::regex enumerator(R"(([a-z_0-9]+)( = [^,}]*)? *(,|\}|$))");
  static const std::regex field(R"( *[a-zA-Z_][^(=]*[ >&*]([a-z_0-9]+)(\[.*\])?( = .*|\{.*\})?; *)");
  const std::string code = line.substr(0, line.find("//"));
  std::smatch match;
  if (to.is == kind::structure && std::regex_match(code, match, field)) to.members.insert(match[1]);
  if (to.is == kind::structure) return;
  for (std::sregex_iterator i(code.begin(), code.end(), enumerator), end; i != end; ++i) to.members.insert((*i)[1]);
}

/// Returns the enumerations and structs of a file formatted by clang-format.
std::vector<definition> definitions_of(const source& one) {
  static const std::regex begin(R"( *(enum class|struct) ([a-z_0-9]+)[^;(]*\{(.*))");
  std::vector<definition> all;
  std::smatch match;
  for (auto line = one.lines.begin(); line != one.lines.end(); ++line) {
    if (!std::regex_match(*line, match, begin)) continue;
    definition made{match[1] == "struct" ? kind::structure : kind::enumeration, match[2], one.component(), {}};
    const std::string end = std::string(indent(*line), ' ') + "};";
    if (line->ends_with("};")) {
      add_members(match[3], made);
    } else {
      for (auto inside = std::next(line); inside != one.lines.end() && *inside != end; ++inside)
        if (indent(*inside) == end.size()) add_members(*inside, made);
    }
    all.push_back(std::move(made));
  }
  return all;
}

/// Returns pairs of types of different components where one type, with at least `least` members, has no members that
/// the other lacks.
std::set<std::set<std::string>> twins_among(const std::vector<definition>& all, kind is, std::size_t least) {
  std::set<std::set<std::string>> found;
  for (const definition& small : all)
    for (const definition& large : all)
      if (small.is == is && large.is == is && small.members.size() >= least && small.component != large.component &&
          std::ranges::includes(large.members, small.members))
        found.insert({small.name, large.name});
  return found;
}

std::vector<definition> definitions_of_all_components() {
  std::vector<definition> all;
  for (const source& one : sources())
    if (one.is_header() && is_production(one)) std::ranges::move(definitions_of(one), std::back_inserter(all));
  return all;
}

TEST(Twins, NoTwoComponentsNumberTheSameThings) {
  const auto all = definitions_of_all_components();
  EXPECT_GT(all.size(), 600U) << "this test is out of date";
  // Bags are pooled in three ways; tensors are reduced in these and another one.
  EXPECT_EQ(twins_among(all, kind::enumeration, 3), (std::set<std::set<std::string>>{{"pooling", "reduce_op"}}));
}

TEST(Twins, NoTwoComponentsHaveStructsOfTheSameFields) {
  // Messages are flat, and models know nothing of them; the table of options is made by the compiler.
  EXPECT_EQ(twins_among(definitions_of_all_components(), kind::structure, 6),
            (std::set<std::set<std::string>>{
                {"epoch_figures", "run_result"}, {"evaluation", "predictions"}, {"option_info", "setting_info"}}));
}

TEST(Twins, AreFoundHoweverTheyAreLaidOut) {
  const source one{"a/types.hpp",
                   {"enum class dtype : std::uint8_t { f32, f64, i64 };",  //
                    "struct info {",                                       //
                    "  std::string name;",                                 //
                    "  std::uint64_t rows = 0;  ///< of all",              //
                    "",                                                    //
                    "  std::string text() const;",                         //
                    "};"}};
  const source other{"b/types.hpp",
                     {"class table {",                          //
                      "  enum class number {",                  //
                      "    i64,  ///< the only one that is 8",  //
                      "    f64 = 3,",                           //
                      "    f32,",                               //
                      "    u8",                                 //
                      "  };",                                   //
                      "  struct part {",                        //
                      "    std::string name = {};",             //
                      "    std::vector<int> rows;",             //
                      "    bool is_new{false};",                //
                      "  };",                                   //
                      "};"}};
  auto all = definitions_of(one);
  std::ranges::move(definitions_of(other), std::back_inserter(all));
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[3].members, (std::set<std::string>{"name", "rows", "is_new"}));
  EXPECT_EQ(twins_among(all, kind::enumeration, 3), (std::set<std::set<std::string>>{{"dtype", "number"}}));
  EXPECT_EQ(twins_among(all, kind::structure, 2), (std::set<std::set<std::string>>{{"info", "part"}}));
}

/// Twins that have become one type are recognized by their former names.
TEST(Twins, TypesThatHaveGoneStayAway) {
  static const std::regex gone(R"( *(enum class|class|struct) (tensor_type|row_distribution|untrained_module|)"
                               R"(layer_network|described_layers?)\b[^;]*\{.*)");
  for (const source& one : sources())
    for (std::size_t i = 0; is_production(one) && i < one.lines.size(); ++i)
      EXPECT_FALSE(std::regex_match(one.lines[i], gone)) << place(one, i);
}

}  // namespace
}  // namespace troupe::tidy_test::twins_test
