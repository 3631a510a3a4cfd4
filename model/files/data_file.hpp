// A file that is read bit by bit while it must stay as it is.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/result.hpp"

namespace troupe {

/// A file under its name and as it is now: one that was written anew is another one.
struct file_identity {
  std::string path;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t changed_s = 0;
  std::int64_t changed_ns = 0;

  bool operator==(const file_identity&) const = default;
};

/// Of a file that cannot be looked at the path alone: it cannot be opened either, and opening says why.
file_identity identity_of(const std::string& path);

/// A regular file, open for reading. May be used from several threads.
class data_file {
 public:
  /// Faults: there is no such file, it may not be read, it is a directory or a device, it is empty.
  static result<std::shared_ptr<const data_file>> open(const std::string& path);
  ~data_file();
  data_file(const data_file&) = delete;
  data_file& operator=(const data_file&) = delete;

  /// The path, fit for a message.
  const std::string& name() const { return name_; }

  /// Fills `to` with up to `room` bytes from byte `offset` on; returns how many, 0 only at the end of the file.
  result<std::size_t> read_at(std::uint64_t offset, char* to, std::size_t room) const;

  /// A fault if the file is no longer what it was when it was opened.
  std::optional<fault> changed() const;

 private:
  explicit data_file(const std::string& path);

  std::string name_;
  int descriptor_;
  file_identity identity_;
};

}  // namespace troupe
