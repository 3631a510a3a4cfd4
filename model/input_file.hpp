// A file to read from, at any place, that must stay as it is meanwhile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"

namespace troupe::model {

/// A file under its name and as it is now: one that was written anew is another one.
struct file_identity {
  std::string path;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t length = 0;
  std::int64_t changed_s = 0;
  std::int64_t changed_ns = 0;

  bool operator==(const file_identity&) const = default;
};

/// Of a file that cannot be looked at the path alone: it cannot be opened either, and opening says why.
file_identity identity_of(const std::string& path);

/// An open regular file. All faults name it; those of reading are of kind run where the system fails, and of kind input
/// where the file ends early. Reading may be done from any thread.
class input_file {
 public:
  input_file() = default;

  /// Opens `path`, which must be a regular file; `wanted` says in the fault what it should be ("a job file").
  static result<input_file> open(const std::string& path, const std::string& wanted);

  input_file(input_file&& other) noexcept;
  input_file& operator=(input_file&& other) noexcept;
  ~input_file();

  /// The path, fit for a message.
  const std::string& name() const { return name_; }

  /// Bytes it had when it was opened.
  std::uint64_t length() const { return identity_.length; }

  /// A fault if the file is no longer what it was when it was opened.
  std::optional<fault> changed() const;

  /// Fills `to` as far as there are bytes from `offset` on; returns how many, 0 only at the end of the file.
  result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> to) const;

  /// Fills `to` with the bytes from `offset` on; a fault if the file ends before.
  result<void> read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  file_identity identity_;
};

}  // namespace troupe::model
