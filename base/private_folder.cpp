#include "base/private_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace troupe {

namespace {

constexpr mode_t owner_only = 0700;

tl::unexpected<fault> cannot(const std::filesystem::path& path, const char* what, int code) {
  return bad_input("{}: cannot be {}: {}", path.string(), what, std::strerror(code));
}

}  // namespace

int make_own_folder(const std::filesystem::path& path) {
  const std::filesystem::path bare = path.has_filename() ? path : path.parent_path();
  std::error_code failed;
  if (bare.has_parent_path()) std::filesystem::create_directories(bare.parent_path(), failed);
  if (::mkdir(bare.c_str(), owner_only) == 0) return 0;
  const int code = errno;
  return std::filesystem::is_directory(bare, failed) ? 0 : code;
}

result<private_folder> private_folder::open(const std::filesystem::path& path) {
  if (const int code = make_own_folder(path); code != 0) return cannot(path, "made", code);
  auto folder = descriptor::adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.is_open()) {
    if (errno == ENOTDIR || errno == ELOOP) return bad_input("{}: is a link", path.string());
    return cannot(path, "opened", errno);
  }
  struct stat found {};
  if (::fstat(folder.number(), &found) != 0) return cannot(path, "looked at", errno);
  if (found.st_uid != ::geteuid()) return bad_input("{}: belongs to another user ({})", path.string(), found.st_uid);
  if ((found.st_mode & 0777) != owner_only && ::fchmod(folder.number(), owner_only) != 0)
    return cannot(path, "kept from other users", errno);
  return private_folder(path, std::move(folder));
}

result<private_folder> private_folder::create(const std::filesystem::path& path) {
  constexpr int names_max = 1000;
  std::filesystem::path name = path;
  int made = ::mkdir(name.c_str(), owner_only);
  for (int i = 2; made != 0 && errno == EEXIST && i <= names_max; ++i) {
    name = fmt::format("{}-{}", path.string(), i);
    made = ::mkdir(name.c_str(), owner_only);
  }
  if (made != 0) return cannot(name, "made", errno);
  return open(name);
}

bool private_folder::has(const std::string& name) const {
  struct stat found {};
  return ::fstatat(folder_.number(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

result<void> private_folder::write(const std::string& name, std::string_view bytes) const {
  auto file = descriptor::adopt(
      ::openat(folder_.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return cannot(path_ / name, "made", errno);
  if (const int code = write_all(file.number(), bytes); code != 0) return cannot(path_ / name, "written", code);
  if (::close(file.release()) != 0) return cannot(path_ / name, "written", errno);
  return {};
}

}  // namespace troupe
