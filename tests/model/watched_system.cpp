#include "tests/model/watched_system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <optional>

namespace troupe::model {
namespace {

bool watching = false;
at_call doing = at_call::log;
std::uint64_t chosen = 0;
std::uint64_t made = 0;
std::vector<system_call> logged;

std::optional<std::uint64_t> reads_before_failure;
bool read_failed = false;

/// Returns whether the call must fail.
bool next_read() {
  if (!reads_before_failure) return false;
  if (*reads_before_failure > 0) {
    --*reads_before_failure;
    return false;
  }
  reads_before_failure.reset();
  read_failed = true;
  errno = EIO;
  return true;
}

/// Returns whether the call must fail.
bool next_call(const char* name, const std::string& path) {
  if (!watching) return false;
  const bool is_chosen = made++ == chosen;
  if (doing == at_call::log) logged.push_back({name, path});
  if (doing == at_call::die && is_chosen) ::_exit(died);
  if (doing != at_call::fail || !is_chosen) return false;
  errno = ENOSPC;
  return true;
}

/// The file of a descriptor; looked up only while calls are logged.
std::string path_of(int descriptor) {
  if (!watching || doing != at_call::log) return "";
  std::error_code none;
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), none);
}

}  // namespace

system_watch::system_watch(at_call what, std::uint64_t number) {
  doing = what;
  chosen = number;
  made = 0;
  logged.clear();
  watching = true;
}

system_watch::~system_watch() { watching = false; }

std::uint64_t system_watch::count() { return made; }

std::vector<system_call> system_watch::calls() { return logged; }

failing_read::failing_read(std::uint64_t number) {
  reads_before_failure = number;
  read_failed = false;
}

failing_read::~failing_read() { reads_before_failure.reset(); }

bool failing_read::happened() { return read_failed; }

}  // namespace troupe::model

extern "C" {

int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int descriptor, const void* bytes, size_t count);
ssize_t __real_pread(int descriptor, void* bytes, size_t count, off_t offset);
int __real_close(int descriptor);
int __real_mkdir(const char* path, mode_t mode);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);
int __real_rmdir(const char* path);

int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
    if (troupe::model::next_call("open", path)) return -1;
  } else if (troupe::model::next_read()) {
    return -1;
  }
  return __real_open(path, flags, mode);
}

// A full disk accepts a part of the data before it fails.
ssize_t __wrap_write(int descriptor, const void* bytes, size_t count) {
  if (troupe::model::next_call("write", troupe::model::path_of(descriptor))) return -1;
  return __real_write(descriptor, bytes, count > 1 && troupe::model::watching ? count / 2 : count);
}

ssize_t __wrap_pread(int descriptor, void* bytes, size_t count, off_t offset) {
  return troupe::model::next_read() ? -1 : __real_pread(descriptor, bytes, count, offset);
}

// Not forwarded: the tests have no power cuts, and thousands of real syncs take minutes.
int __wrap_fsync(int descriptor) {
  if (troupe::model::next_call("fsync", troupe::model::path_of(descriptor))) return -1;
  return ::fcntl(descriptor, F_GETFD) < 0 ? -1 : 0;
}

int __wrap_close(int descriptor) {
  const bool fails = troupe::model::next_call("close", troupe::model::path_of(descriptor));
  const int closed = __real_close(descriptor);
  if (!fails) return closed;
  errno = ENOSPC;
  return -1;
}

int __wrap_mkdir(const char* path, mode_t mode) {
  return troupe::model::next_call("mkdir", path) ? -1 : __real_mkdir(path, mode);
}

int __wrap_rename(const char* from, const char* to) {
  return troupe::model::next_call("rename", to) ? -1 : __real_rename(from, to);
}

int __wrap_unlink(const char* path) { return troupe::model::next_call("unlink", path) ? -1 : __real_unlink(path); }

int __wrap_rmdir(const char* path) { return troupe::model::next_call("rmdir", path) ? -1 : __real_rmdir(path); }

}  // extern "C"
