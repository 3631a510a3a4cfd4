// The exception that modules and the library throw.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace troupe {

enum class error_kind : std::uint8_t {
  input,     ///< an argument, a setting or a file is wrong
  run,       ///< the run failed
  deadline,  ///< an answer is late
  dropped,   ///< the actor that should have answered has ended, or has dropped the promise
};

/// `what()` is one line: the subject, its value, the limit, and what to try.
class error : public std::runtime_error {
 public:
  error(error_kind kind, const std::string& text, bool is_transient = false)
      : std::runtime_error(text), kind_(kind), is_transient_(is_transient) {}

  error_kind kind() const { return kind_; }
  /// Whether a process, link or device was lost: the run may succeed if restarted, as with --restarts.
  bool is_transient() const { return is_transient_; }

 private:
  error_kind kind_;
  bool is_transient_;
};

}  // namespace troupe
