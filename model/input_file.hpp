// Random-access reading of a file that must not change meanwhile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace troupe::model {

/// Identifies a file and its content: a rewritten file has another identity.
struct file_identity {
  std::string path;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t length = 0;
  std::int64_t changed_s = 0;
  std::int64_t changed_ns = 0;

  bool operator==(const file_identity&) const = default;
};

/// Returns the identity; only the path if stat(2) fails, since opening will then fail with the reason.
file_identity identity_of(const std::string& path);

/// An open regular file. All faults name it; read faults are of kind run if the system fails or `stop_asked`, and of
/// kind input if the file is too short. Thread: any, for reading.
class input_file {
 public:
  input_file() = default;

  /// Opens `path`; a fault if it is no regular file. `wanted` is its purpose in the fault ("a job file").
  static result<input_file> open(const std::string& path, const std::string& wanted);

  /// Registers it as an input of this command (base/input_files.hpp). `what`: its description, as in "the job file".
  void remember(const std::string& what) const;

  /// Returns the path for messages.
  const std::string& name() const { return name_; }

  /// Returns its length when it was opened.
  std::uint64_t length() const { return identity_.length; }

  /// Returns a fault if the file has changed since it was opened.
  std::optional<fault> changed() const;

  /// Reads up to `to.size()` bytes from `offset` on; returns the number read, 0 only at the end of the file.
  result<std::size_t> read_some(std::uint64_t offset, std::span<std::byte> to) const;

  /// Reads `to.size()` bytes from `offset` on; a fault if the file is too short.
  result<void> read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::string name_;
  descriptor descriptor_;
  file_identity identity_;
};

/// Opens a data file. Faults: it is empty, or not a regular file and so cannot be read several times.
result<std::shared_ptr<const input_file>> open_data_file(const std::string& path);

}  // namespace troupe::model
