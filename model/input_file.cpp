#include "model/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/input_files.hpp"
#include "base/stop_request.hpp"
#include "base/text.hpp"

namespace troupe::model {

namespace {

file_identity identity_from(const std::string& path, const struct stat& status) {
  return {path,
          status.st_dev,
          status.st_ino,
          static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

}  // namespace

file_identity identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {path};
  return identity_from(path, status);
}

result<input_file> input_file::open(const std::string& path, const std::string& wanted) {
  input_file file;
  file.name_ = printable_path(path);
  // Without O_NONBLOCK, opening a named pipe would block until it has a writer.
  file.descriptor_ = descriptor::adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.descriptor_.is_open() || ::fstat(file.descriptor_.number(), &status) != 0)
    return bad_input("{}: {}; {} is expected", file.name_, std::strerror(errno), wanted);
  if (!S_ISREG(status.st_mode)) {
    const char* is = S_ISDIR(status.st_mode) ? "a directory" : "not a regular file";
    return bad_input("{}: {}: must be {}", file.name_, is, wanted);
  }
  file.identity_ = identity_from(path, status);
  return file;
}

void input_file::remember(const std::string& what) const { remember_input(identity_.path, what); }

std::optional<fault> input_file::changed() const {
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0)
    return fault{fault_kind::input, fmt::format("{}: {}", name_, std::strerror(errno))};
  if (identity_from(identity_.path, status) == identity_) return std::nullopt;
  const auto length = static_cast<std::uint64_t>(status.st_size);
  const std::string how = length == identity_.length ? fmt::format("though it has {} bytes as before", length)
                                                     : fmt::format("from {} to {} bytes", identity_.length, length);
  return fault{
      fault_kind::input,
      fmt::format("{}: changed since the run opened it, {}; leave a file alone while a run reads it", name_, how)};
}

result<std::size_t> input_file::read_some(std::uint64_t offset, std::span<std::byte> to) const {
  for (;;) {
    if (stop_asked()) return stopped(name_);
    const ssize_t got = ::pread(descriptor_.number(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return run_fault("{}: reading at byte {}: {}", name_, offset, std::strerror(errno));
  }
}

result<void> input_file::read(std::uint64_t offset, std::span<std::byte> to) const {
  constexpr std::size_t piece = std::size_t{16} << 20;  // a requested stop is checked after each piece
  while (!to.empty()) {
    TROUPE_TRY(got, read_some(offset, to.first(std::min(to.size(), piece))));
    if (got == 0) return bad_input("{}: ends at byte {} while it is being read: was it cut?", name_, offset);
    offset += got;
    to = to.subspan(got);
  }
  return {};
}

result<std::shared_ptr<const input_file>> open_data_file(const std::string& path) {
  TROUPE_TRY(file, input_file::open(path, "a data file"));
  file.remember("the file that rows are read from");
  if (file.length() == 0) return bad_input("{}: empty: must have at least one row", file.name());
  return std::make_shared<const input_file>(std::move(file));
}

}  // namespace troupe::model
