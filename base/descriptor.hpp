// Files as the system knows them: by descriptor.

#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace troupe {

/// Writes all of `text`; 0, or errno of what went wrong.
int write_all(int descriptor, std::string_view text);

/// An open file, closed with the object.
class descriptor {
 public:
  /// Opens `path` with the system's flags (O_CREAT and so on; a new file is readable for everybody, within the umask).
  /// The fault is the system's reason alone.
  static result<descriptor> open(const std::string& path, int flags);

  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();

  int number() const { return number_; }

 private:
  explicit descriptor(int number) : number_(number) {}

  int number_ = -1;
};

}  // namespace troupe
