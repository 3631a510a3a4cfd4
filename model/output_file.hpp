// A file that is written once, from its first byte to its last, and is on the disk when it is closed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"

namespace troupe::model {

/// What a closed file holds.
struct written_file {
  std::uint64_t length = 0;
  /// See `file_digest`.
  std::string digest;
};

/// Written by one thread at a time. Small pieces are gathered, large ones go out without a copy. All faults are of kind
/// run and name the file, what the system said, and how many bytes were wanted; a file that had one is of no use.
class output_file {
 public:
  /// Creates `path`, to be filled with exactly `length` bytes. A file of that name, or a link, is removed first:
  /// nothing is written through a link that somebody else has put there.
  static result<output_file> create(const std::string& path, std::uint64_t length);

  output_file(output_file&& other) noexcept;
  output_file& operator=(output_file&& other) noexcept;
  /// A file that was not closed stays as it is: incomplete.
  ~output_file();

  const std::string& path() const { return path_; }

  result<void> append(std::span<const std::byte> bytes);

  /// Waits until the bytes are on the disk. Nothing may be called after it.
  result<written_file> close();

 private:
  output_file(std::string path, int descriptor, std::uint64_t length)
      : path_(std::move(path)), descriptor_(descriptor), length_(length) {}

  /// Writes the bytes that were gathered.
  result<void> flush();
  result<void> write(std::span<const std::byte> bytes);

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t length_ = 0;
  std::uint64_t written_ = 0;
  std::vector<std::byte> gathered_;
  file_digest digest_;
};

/// Writes a whole file.
result<written_file> write_whole_file(const std::string& path, std::span<const std::byte> bytes);

/// Whether files can be written in a folder: writes one of that name and removes it. Faults as those of a file.
result<void> try_folder(const std::string& folder, const std::string& name);

/// Waits until the entries of a folder are on the disk: files created, renamed or removed in it.
result<void> sync_folder(const std::string& path);

}  // namespace troupe::model
