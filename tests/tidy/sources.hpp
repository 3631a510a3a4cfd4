// The project's sources as text, for tests of the rules in CONTRIBUTING.md.

#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe::tidy_test {

struct source {
  std::string path;  // relative to the project's folder
  std::vector<std::string> lines;

  /// Returns the innermost folder of the table that it is in; else its top folder.
  std::string component() const;
  bool is_header() const { return path.ends_with(".hpp"); }
};

std::vector<std::string> lines_of(const std::filesystem::path& path);

/// A folder's path, and the folders that it may include, as CONTRIBUTING.md's table has them.
using arrows = std::map<std::string, std::set<std::string>>;

const arrows& components();

/// Returns the innermost folder of the table that a path is in; else its top folder.
std::string component_of(const std::string& path);

/// All C++ and CUDA sources, sorted by path.
const std::vector<source>& sources();

bool is_production(const source& one);

/// FILE:LINE. `line` counts from 0.
std::string place(const source& one, std::size_t line);

/// A block with a signature: a function, or a statement within one.
struct function {
  std::size_t first;  ///< line of the signature's begin, counted from 0
  std::size_t lines;  ///< including the signature and the closing brace
};

/// Returns the functions of a file formatted by clang-format. The closing brace of a function has the indentation of
/// the line on which its signature begins, however that wraps.
std::vector<function> functions_of(const source& one);

}  // namespace troupe::tidy_test
