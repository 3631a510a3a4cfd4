// File descriptors.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace troupe {

/// Writes all of `text`. Returns 0, or the errno of the failure.
int write_all(int descriptor, std::string_view text);

/// Returns how many more descriptors the system allows this process to open, counted up to `most`.
std::size_t descriptors_left(std::size_t most);

/// An open file descriptor, or none; the destructor closes it.
class descriptor {
 public:
  descriptor() = default;
  /// Opens `path` with flags of open(2). A new file has mode 0666 within the umask. The fault contains only the
  /// system's reason.
  static result<descriptor> open(const std::string& path, int flags);
  /// Owns `number`; a negative one, such as a failed call's, is not open.
  static descriptor adopt(int number) { return descriptor(number); }

  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Releases the descriptor without closing it.
  int release() { return std::exchange(number_, -1); }

 private:
  explicit descriptor(int number) : number_(number) {}

  int number_ = -1;
};

}  // namespace troupe
