// The system calls by which files are written and read, watched and made to fail: the linker puts these in the place of
// the real ones (--wrap, see CMakeLists.txt), for all of this test program. While nobody watches, they pass everything
// on but fsync, which does nothing here.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::model {

/// A call that was made: "write", and the path it was about.
struct system_call {
  std::string name;
  std::string path;
};

enum class at_call : std::uint8_t {
  log,   ///< write down all calls
  fail,  ///< the call with the given number does nothing and says that the disk is full
  die,   ///< the process ends instead of making it
};

/// Watches open (of files that are written), write, fsync, close, mkdir, rename, unlink and rmdir of this process while
/// it lives. For one thread.
class system_watch {
 public:
  /// Calls count from 0.
  explicit system_watch(at_call what, std::uint64_t number = 0);
  ~system_watch();
  system_watch(const system_watch&) = delete;
  system_watch& operator=(const system_watch&) = delete;

  /// Calls so far.
  static std::uint64_t count();
  static std::vector<system_call> calls();
};

/// Makes one of the calls by which files are read fail, while it lives: the open (of a file that is not written) or
/// pread with the given number says that the device does. For one thread.
class failing_read {
 public:
  /// Calls count from 0.
  explicit failing_read(std::uint64_t number);
  ~failing_read();
  failing_read(const failing_read&) = delete;
  failing_read& operator=(const failing_read&) = delete;

  /// Whether that many calls have been made.
  static bool happened();
};

/// What a process that died exits with.
constexpr int died = 77;

}  // namespace troupe::model
