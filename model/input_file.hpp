// A file to read from, at any place.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "model/result.hpp"

namespace troupe {

/// An open regular file. All faults name it. Reading may be done from any thread.
class input_file {
 public:
  input_file() = default;

  /// Opens `path`, which must be a regular file; `wanted` says in the fault what it should be ("a job file").
  static result<input_file> open(const std::string& path, const std::string& wanted);

  input_file(input_file&& other) noexcept;
  input_file& operator=(input_file&& other) noexcept;
  ~input_file();

  const std::string& path() const { return path_; }

  /// Bytes it had when it was opened.
  std::uint64_t length() const { return length_; }

  /// Fills `to` with the bytes from `offset` on; a fault if the file ends before.
  result<void> read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t length_ = 0;
};

}  // namespace troupe
