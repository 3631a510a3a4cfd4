// Watches the system calls that write and read files, and makes them fail: the linker replaces the real calls (--wrap,
// see CMakeLists.txt) in this whole test program. Without a watch all calls are forwarded except fsync, which does
// nothing.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::model {

/// A call that was made: "write", for example, and its path.
struct system_call {
  std::string name;
  std::string path;
};

enum class at_call : std::uint8_t {
  log,   ///< record all calls
  fail,  ///< the call with the given number does nothing and reports a full disk
  die,   ///< the process ends instead of making the call
};

/// Watches this process's open (of written files), write, fsync, close, mkdir, rename, unlink and rmdir during its
/// lifetime. For one thread.
class system_watch {
 public:
  /// Calls are numbered from 0.
  explicit system_watch(at_call what, std::uint64_t number = 0);
  ~system_watch();
  system_watch(const system_watch&) = delete;
  system_watch& operator=(const system_watch&) = delete;

  /// Calls so far.
  static std::uint64_t count();
  static std::vector<system_call> calls();
};

/// Makes one reading call fail during its lifetime: the open (of a file that is not written) or pread with the given
/// number reports an error of the device. For one thread.
class failing_read {
 public:
  /// Calls are numbered from 0.
  explicit failing_read(std::uint64_t number);
  ~failing_read();
  failing_read(const failing_read&) = delete;
  failing_read& operator=(const failing_read&) = delete;

  /// Whether the failing call has been made.
  static bool happened();
};

/// The exit code of a process that died on purpose.
constexpr int died = 77;

}  // namespace troupe::model
