#include "model/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/input_files.hpp"
#include "base/text.hpp"

namespace troupe::model {

namespace {

/// Bytes of one write: large enough to make the call's cost small, small enough to stay in the cache between digest and
/// write.
constexpr std::size_t write_bytes = std::size_t{1} << 20;

tl::unexpected<fault> failed(const std::string& path, const char* doing, int error) {
  return run_fault("{}: {}: {}", printable_path(path), doing, std::strerror(error));
}

/// Creates a file. Removes an existing file or link of that name first. Returns its descriptor, or -1 with errno.
int create_new(const char* path) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int created = ::open(path, flags, 0666);
  if (created >= 0 || errno != EEXIST) return created;
  struct stat there {};
  const bool is_other = ::lstat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode);
  if (is_other || input_at(path)) {
    errno = EEXIST;
    return -1;
  }
  return ::unlink(path) == 0 ? ::open(path, flags, 0666) : -1;
}

}  // namespace

result<output_file> output_file::create(const std::string& path, std::uint64_t length) {
  auto file = descriptor::adopt(create_new(path.c_str()));
  if (!file.is_open()) return failed(path, "creating it", errno);
  return output_file(path, std::move(file), length);
}

result<void> output_file::append(std::span<const std::byte> bytes) {
  if (gathered_.size() + bytes.size() < write_bytes) {
    gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
    return {};
  }
  if (auto done = flush(); !done) return done;
  while (bytes.size() >= write_bytes) {
    if (auto done = write(bytes.first(write_bytes)); !done) return done;
    bytes = bytes.subspan(write_bytes);
  }
  gathered_.assign(bytes.begin(), bytes.end());
  return {};
}

result<void> output_file::flush() {
  auto done = write(gathered_);
  gathered_.clear();
  return done;
}

result<void> output_file::write(std::span<const std::byte> bytes) {
  digest_.add(bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : EIO;
      return run_fault("{}: {} after {} of {} bytes{}", printable_path(path_), std::strerror(error), written_, length_,
                       error == ENOSPC || error == EDQUOT ? "; make room on that disk" : "");
    }
    written_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

result<written_file> output_file::close() {
  TROUPE_DO(flush());
  if (written_ != length_)
    return run_fault("{}: {} bytes came to be written: must be {}", printable_path(path_), written_, length_);
  if (::fsync(file_.number()) != 0) return failed(path_, "bringing its bytes to the disk", errno);
  if (::close(file_.release()) != 0) return failed(path_, "closing it", errno);
  return written_file{written_, digest_.hex()};
}

result<written_file> write_whole_file(const std::string& path, std::span<const std::byte> bytes) {
  TROUPE_TRY(file, output_file::create(path, bytes.size()));
  TROUPE_DO(file.append(bytes));
  return file.close();
}

result<void> try_folder(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  const std::string_view content = "This file is removed at once.";
  const auto written = write_whole_file(path, std::as_bytes(std::span(content)));
  ::unlink(path.c_str());
  if (!written) return tl::unexpected<fault>(written.error());
  return {};
}

result<void> sync_folder(const std::string& path) {
  const auto folder = descriptor::adopt(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return failed(path, "opening the folder", errno);
  // Some file systems cannot sync and return EINVAL.
  if (::fsync(folder.number()) != 0 && errno != EINVAL) return failed(path, "bringing the folder to the disk", errno);
  return {};
}

}  // namespace troupe::model
