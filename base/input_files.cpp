#include "base/input_files.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

namespace troupe {
namespace {

using file_key = std::pair<dev_t, ino_t>;

struct input {
  std::string path;  ///< absolute
  std::string what;
};

struct inputs {
  std::mutex mutex;
  std::map<file_key, input> all;
};

inputs& known_inputs() {
  static inputs known;
  return known;
}

std::optional<file_key> key_of(const struct stat& status) {
  return S_ISREG(status.st_mode) ? std::optional(file_key{status.st_dev, status.st_ino}) : std::nullopt;
}

std::optional<file_key> key_at(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? key_of(status) : std::nullopt;
}

std::optional<std::string> find(const std::optional<file_key>& key) {
  if (!key) return std::nullopt;
  inputs& known = known_inputs();
  const std::lock_guard lock(known.mutex);
  const auto found = known.all.find(*key);
  if (found == known.all.end()) return std::nullopt;
  if (key_at(found->second.path) == key) return found->second.what;
  known.all.erase(found);  // it was removed, and another file now has its inode
  return std::nullopt;
}

}  // namespace

void remember_input(const std::string& path, const std::string& what) {
  const auto key = key_at(path);
  if (!key || find(key)) return;
  std::error_code failed;
  const std::string absolute = std::filesystem::absolute(path, failed).string();
  inputs& known = known_inputs();
  const std::lock_guard lock(known.mutex);
  known.all.emplace(*key, input{failed ? path : absolute, what});
}

std::optional<std::string> input_at(const std::string& path) { return find(key_at(path)); }

std::optional<std::string> input_behind(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? find(key_of(status)) : std::nullopt;
}

result<void> check_output(const std::string& path) {
  if (const auto what = input_at(path)) return bad_input("is {}; name another file", *what);
  return {};
}

}  // namespace troupe
