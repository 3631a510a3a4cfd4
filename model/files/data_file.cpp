#include "model/files/data_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/text.hpp"

namespace troupe {

namespace {

file_identity identity_from(const std::string& path, const struct stat& status) {
  return {path, status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

file_identity identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {path};
  return identity_from(path, status);
}

// Without O_NONBLOCK a named pipe would wait for a writer.
data_file::data_file(const std::string& path)
    : name_(printable(path)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

data_file::~data_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

result<std::shared_ptr<const data_file>> data_file::open(const std::string& path) {
  const std::shared_ptr<data_file> opened(new data_file(path));
  const auto refuse = [&opened](const std::string& why) {
    return bad_input(fmt::format("{}: {}", opened->name_, why));
  };
  struct stat status {};
  if (opened->descriptor_ < 0 || ::fstat(opened->descriptor_, &status) != 0) return refuse(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) return refuse("a directory: must be a file");
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file: must be one, since it is read more than once");
  if (status.st_size == 0) return refuse("empty: must have at least one row");
  opened->identity_ = identity_from(path, status);
  ::posix_fadvise(opened->descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  return opened;
}

result<std::size_t> data_file::read_at(std::uint64_t offset, char* to, std::size_t room) const {
  for (;;) {
    const ssize_t got = ::pread(descriptor_, to, room, static_cast<off_t>(offset));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR)
      return bad_input(fmt::format("{}: reading at byte {}: {}", name_, offset, std::strerror(errno)));
  }
}

std::optional<fault> data_file::changed() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    return fault{fault_kind::input, fmt::format("{}: {}", name_, std::strerror(errno))};
  }
  if (identity_from(identity_.path, status) == identity_) return std::nullopt;
  return fault{fault_kind::input, fmt::format("{}: changed since the run opened it, from {} to {} bytes; leave a file "
                                              "alone while a run reads it",
                                              name_, identity_.size, status.st_size)};
}

}  // namespace troupe
