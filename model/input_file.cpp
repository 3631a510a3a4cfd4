#include "model/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/text.hpp"

namespace troupe {

result<input_file> input_file::open(const std::string& path, const std::string& wanted) {
  const std::string shown = printable_path(path);
  input_file file;
  file.path_ = path;
  // Without O_NONBLOCK a named pipe would wait for a writer.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0) {
    return bad_input(fmt::format("{}: {}", shown, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) return bad_input(fmt::format("{}: not a regular file: must be {}", shown, wanted));
  file.length_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

input_file::input_file(input_file&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), length_(other.length_) {}

input_file& input_file::operator=(input_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(length_, other.length_);
  return *this;
}

input_file::~input_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

result<void> input_file::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return bad_input(fmt::format("{}: reading at byte {}: {}", printable_path(path_), offset, std::strerror(errno)));
    }
    if (got == 0) {
      return bad_input(
          fmt::format("{}: ends at byte {} while it is being read: was it cut?", printable_path(path_), offset));
    }
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace troupe
