#include "base/control_group.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace troupe {

namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

/// Version 1 uses 2^63 minus a page for "no limit".
constexpr std::uint64_t unlimited_v1 = std::uint64_t{1} << 62;

/// Returns the number in a file; null if there is no such file, or if it contains a word, such as "max".
std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Returns the number after `key` in a file with lines of a key and a number.
std::optional<std::uint64_t> number_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t number = 0;
  while (file >> name >> number)
    if (name == key) return number;
  return std::nullopt;
}

/// Returns the lines of a file.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

bool has_word(std::string_view list, std::string_view word) {
  const auto values = split(list, ',');
  return std::ranges::find(values, word) != values.end();
}

/// Undoes the escapes of /proc/self/mountinfo, as in \040 for a blank.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto digit = [&](std::size_t i) { return at + i < text.size() ? text[at + i] - '0' : -1; };
    const bool is_escape = text[at] == '\\' && std::ranges::all_of(std::array{1, 2, 3}, [&](std::size_t i) {
                             return digit(i) >= 0 && digit(i) < 8;
                           });
    plain += is_escape ? static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3)) : text[at];
    if (is_escape) at += 3;
  }
  return plain;
}

/// A mounted tree of control groups with a memory controller.
struct tree {
  int version = 2;
  std::string top;     ///< the group that is mounted, as a path within the whole tree
  std::string folder;  ///< the mount point
};

/// A line is: id, parent, device, top, folder, options, any number of fields, "-", type, source, options of the tree.
std::optional<tree> tree_of(const std::string& line) {
  const auto fields = split(line, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return std::nullopt;
  const std::string_view type = dash[1];
  if (type != "cgroup2" && (type != "cgroup" || !has_word(dash[3], "memory"))) return std::nullopt;
  return tree{type == "cgroup2" ? 2 : 1, unescaped(fields[3]), unescaped(fields[4])};
}

/// Returns the path of this process's group in the tree of a version, from a line "4:memory:/a/b" or "0::/a/b"; null if
/// the line is of another tree.
std::optional<std::string> path_in(const std::string& line, int version) {
  const auto first = line.find(':');
  const auto second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = line.substr(first + 1, second - first - 1);
  if (version == 2 ? line.substr(0, first) != "0" || !controllers.empty() : !has_word(controllers, "memory"))
    return std::nullopt;
  return line.substr(second + 1);
}

/// Returns the part of `path` below `top`; null if it is not below. In a container, the path of a group outside begins
/// with "/..".
std::optional<std::string> below(const std::string& top, const std::string& path) {
  if (path == top) return "";
  const std::string begin = top == "/" ? "" : top;
  if (!path.starts_with(begin + "/") || path.starts_with(begin + "/..")) return std::nullopt;
  return path.substr(begin.size());
}

/// Returns the groups in `mounted` from the one at `path` up to the mounted one.
std::vector<control_group> groups_in(const tree& mounted, const std::string& path, const std::string& root) {
  const std::string top = root + mounted.folder;
  std::string folder = top + below(mounted.top, path).value_or("");
  // A path of another namespace does not exist here: then only the visible tree is known.
  if (!std::filesystem::is_directory(folder)) folder = top;
  std::vector<control_group> groups;
  for (;;) {
    groups.push_back({mounted.version, folder});
    if (folder.size() <= top.size()) return groups;
    folder.resize(folder.rfind('/'));
    // Version 1 may have groups without a hierarchy: then the groups above limit nothing.
    if (mounted.version == 1 && number_in(folder + "/memory.use_hierarchy") == 0) return groups;
  }
}

/// Returns the memory that one group leaves.
std::uint64_t left_in(const control_group& group) {
  const auto file = [&](const char* name) { return group.folder + "/memory." + name; };
  std::uint64_t limit = unlimited;
  const auto take = [&limit](std::optional<std::uint64_t> one) { limit = std::min(limit, one.value_or(unlimited)); };
  if (group.version == 2) {
    take(number_in(file("max")));
    take(number_in(file("high")));  // above it the kernel reclaims pages and slows the group down
  } else {
    take(number_in(file("limit_in_bytes")));
    take(number_in(file("stat"), "hierarchical_memory_limit"));  // also includes groups above that are not visible
    if (limit >= unlimited_v1) limit = unlimited;
  }
  const auto used = number_in(file(group.version == 2 ? "current" : "usage_in_bytes"));
  if (limit == unlimited || !used) return unlimited;
  std::uint64_t held = *used;
  const char* const of_all = group.version == 2 ? "" : "total_";  // its usage includes the groups below
  for (const char* reclaimable : {"inactive_file", "active_file", "slab_reclaimable"})
    held -= std::min(held, number_in(file("stat"), std::string(of_all) + reclaimable).value_or(0));
  return limit > held ? limit - held : 0;
}

}  // namespace

std::vector<control_group> memory_groups(const std::string& root) {
  const auto own = lines_of(root + "/proc/self/cgroup");
  std::vector<tree> trees;
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo"))
    if (auto one = tree_of(line)) trees.push_back(std::move(*one));
  std::vector<control_group> groups;
  for (const int version : {2, 1}) {
    std::optional<std::string> path;
    for (auto line = own.begin(); line != own.end() && !path; ++line) path = path_in(*line, version);
    // A tree may be mounted several times, sometimes without the part with this process.
    const tree* best = nullptr;
    for (const tree& one : trees)
      if (path && one.version == version && (best == nullptr || (!below(best->top, *path) && below(one.top, *path))))
        best = &one;
    if (best == nullptr) continue;
    const auto found = groups_in(*best, *path, root);
    groups.insert(groups.end(), found.begin(), found.end());
  }
  return groups;
}

std::uint64_t memory_left(const std::vector<control_group>& groups) {
  std::uint64_t least = unlimited;
  for (const control_group& one : groups) least = std::min(least, left_in(one));
  return least;
}

std::optional<std::uint64_t> killed_in(const std::vector<control_group>& groups) {
  std::array<bool, 3> seen{};  // the first of each version is the process's own
  for (const control_group& one : groups) {
    if (std::exchange(seen[one.version], true)) continue;
    if (const auto killed =
            number_in(one.folder + (one.version == 2 ? "/memory.events" : "/memory.oom_control"), "oom_kill"))
      return killed;
  }
  return std::nullopt;
}

}  // namespace troupe
