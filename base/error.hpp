// The exception that modules and the library throw.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace troupe {

enum class error_kind : std::uint8_t {
  input,     ///< an argument, a setting or a file is wrong
  run,       ///< the run failed
  deadline,  ///< an answer did not come in time
  dropped,   ///< who should have answered has ended, or has dropped the promise
};

/// `what()` is one line: the thing, its value, the limit, and what to try.
class error : public std::runtime_error {
 public:
  error(error_kind kind, const std::string& words, bool is_transient = false)
      : std::runtime_error(words), kind_(kind), is_transient_(is_transient) {}

  error_kind kind() const { return kind_; }
  /// Whether a process, a link or a device was lost: begun again, the run may get past it, as one with --restarts does.
  bool is_transient() const { return is_transient_; }

 private:
  error_kind kind_;
  bool is_transient_;
};

}  // namespace troupe
