#include "tests/tidy/sources.hpp"

#include <algorithm>
#include <fstream>
#include <regex>

namespace troupe::tidy_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> quoted(const std::string& cell) {
  static const std::regex name("`([a-z_/]+?)/?`");
  std::vector<std::string> all;
  for (std::sregex_iterator i(cell.begin(), cell.end(), name), end; i != end; ++i) all.push_back((*i)[1]);
  return all;
}

arrows read_arrows() {
  static const std::regex row(R"(\| (`[a-z_/]+/`) \|.*\| ([^|]+) \|)");
  arrows all;
  std::smatch match;
  for (const std::string& line : lines_of(TROUPE_SOURCES "/CONTRIBUTING.md"))
    if (std::regex_match(line, match, row)) {
      const std::string component = quoted(match[1]).at(0);
      const auto used = quoted(match[2]);
      std::set<std::string>& may_use = all[component];
      if (match[2] == "all of them")
        for (const auto& [other, uses] : all) may_use.insert(other);
      may_use.insert(used.begin(), used.end());
      may_use.insert({"base", component});
    }
  return all;
}

std::vector<source> read_sources() {
  std::vector<std::string> folders = {"tests", "bench"};
  for (const auto& [component, uses] : components()) folders.push_back(component);
  std::vector<source> all;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(TROUPE_SOURCES) / folder)) {
      const std::string kind = entry.path().extension();
      if (kind != ".cpp" && kind != ".hpp" && kind != ".cu") continue;
      all.push_back({fs::relative(entry.path(), TROUPE_SOURCES), lines_of(entry.path())});
    }
  std::ranges::sort(all, {}, &source::path);
  const auto again = std::ranges::unique(all, {}, &source::path);
  all.erase(again.begin(), again.end());
  return all;
}

/// Blanks the lines inside raw strings, whose indentation means nothing.
std::vector<std::string> without_raw_strings(std::vector<std::string> lines) {
  static const std::regex begin(R"re(.*R"(\w*)\((.*))re");
  std::string end;
  std::smatch match;
  for (std::string& line : lines)
    if (!end.empty()) {
      if (line.find(end) != std::string::npos) end.clear();
      line.clear();
    } else if (std::regex_match(line, match, begin)) {
      const std::string closing = ")" + match[1].str() + "\"";
      if (match[2].str().find(closing) == std::string::npos) end = closing;
    }
  return lines;
}

std::size_t indent(const std::string& line) { return line.find_first_not_of(' '); }

/// Whether a statement that ends with a brace opens a function, or a statement with a condition.
bool opens_function(const std::string& statement) {
  static const std::regex scope(R"( *(template <.*> )?(inline )?(namespace|class|struct|union|enum|extern "C")\b.*)");
  return statement.find(')') != std::string::npos && !statement.ends_with("= {") && !statement.ends_with("={") &&
         !std::regex_match(statement, scope);
}

/// Returns the lines from `first` to the first one that ends with a brace, if that is before `end`.
std::string opening_statement(const std::vector<std::string>& lines, std::size_t first, std::size_t end) {
  std::string text;
  for (std::size_t i = first; i < end; ++i) {
    text += lines[i];
    if (text.ends_with("{")) return text;
  }
  return {};
}

}  // namespace

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

const arrows& components() {
  static const arrows all = read_arrows();
  return all;
}

std::string component_of(const std::string& path) {
  for (auto end = path.rfind('/'); end != std::string::npos && end > 0; end = path.rfind('/', end - 1))
    if (components().contains(path.substr(0, end))) return path.substr(0, end);
  return path.substr(0, path.find('/'));
}

std::string source::component() const { return component_of(path); }

const std::vector<source>& sources() {
  static const std::vector<source> all = read_sources();
  return all;
}

bool is_production(const source& one) { return components().contains(one.component()); }

std::string place(const source& one, std::size_t line) { return one.path + ":" + std::to_string(line + 1); }

std::vector<function> functions_of(const source& one) {
  const std::vector<std::string> lines = without_raw_strings(one.lines);
  std::vector<function> all;
  std::map<std::size_t, std::size_t> last;  // by indent: the last line of the statement that may still be open there
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].starts_with('#')) continue;
    const std::size_t in = indent(lines[i]);
    if (const auto begin = last.find(in); lines[i][in] == '}' && begin != last.end())
      if (opens_function(opening_statement(lines, begin->second, i)))
        all.push_back({begin->second, i - begin->second + 1});
    last.erase(last.lower_bound(in), last.end());
    last[in] = i;
  }
  return all;
}

}  // namespace troupe::tidy_test
