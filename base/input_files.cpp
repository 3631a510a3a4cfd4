#include "base/input_files.hpp"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

namespace troupe {
namespace {

using file_key = std::pair<dev_t, ino_t>;

struct inputs {
  std::mutex mutex;
  std::map<file_key, std::string> what;
};

inputs& all_inputs() {
  static inputs all;
  return all;
}

void remember(const struct stat& status, const std::string& what) {
  if (!S_ISREG(status.st_mode)) return;
  inputs& all = all_inputs();
  const std::lock_guard lock(all.mutex);
  all.what.emplace(file_key{status.st_dev, status.st_ino}, what);
}

std::optional<std::string> find(const struct stat& status) {
  inputs& all = all_inputs();
  const std::lock_guard lock(all.mutex);
  const auto found = all.what.find({status.st_dev, status.st_ino});
  return found == all.what.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void remember_input(int descriptor, const std::string& what) {
  struct stat status {};
  if (::fstat(descriptor, &status) == 0) remember(status, what);
}

void remember_input_at(const std::string& path, const std::string& what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) remember(status, what);
}

std::optional<std::string> input_at(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? find(status) : std::nullopt;
}

std::optional<std::string> input_behind(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 ? find(status) : std::nullopt;
}

result<void> check_output(const std::string& path) {
  if (const auto what = input_at(path)) return bad_input("is {}; name another file", *what);
  return {};
}

}  // namespace troupe
