// A file that is written sequentially and is on the disk when it is closed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/digest.hpp"
#include "base/result.hpp"

namespace troupe::model {

/// The length and digest of a closed file.
struct written_file {
  std::uint64_t length = 0;
  /// See `running_digest::hex`.
  std::string digest;
};

/// Buffers small pieces, writes large ones without a copy. Thread: one at a time. All faults are of kind run and name
/// the file, the system's reason, and the number of bytes; after a fault the file is unusable. A file that is not
/// closed stays incomplete.
class output_file {
 public:
  /// Creates `path`, to be filled with exactly `length` bytes. Removes an existing file or link first, so that it never
  /// writes through another user's link; but never a file that this command reads (base/input_files.hpp).
  static result<output_file> create(const std::string& path, std::uint64_t length);

  const std::string& path() const { return path_; }

  result<void> append(std::span<const std::byte> bytes);

  /// Blocks until the bytes are on the disk. Requires: no calls afterwards.
  result<written_file> close();

 private:
  output_file(std::string path, descriptor file, std::uint64_t length)
      : path_(std::move(path)), file_(std::move(file)), length_(length) {}

  /// Writes the buffer.
  result<void> flush();
  result<void> write(std::span<const std::byte> bytes);

  std::string path_;
  descriptor file_;
  std::uint64_t length_ = 0;
  std::uint64_t written_ = 0;
  std::vector<std::byte> gathered_;
  running_digest digest_;
};

/// Writes a whole file.
result<written_file> write_whole_file(const std::string& path, std::span<const std::byte> bytes);

/// Checks whether files can be written in a folder: writes a file of that name and removes it. Faults as for a file.
result<void> try_folder(const std::string& folder, const std::string& name);

/// Blocks until a folder's entries are on the disk: files created, renamed or removed in it.
result<void> sync_folder(const std::string& path);

}  // namespace troupe::model
