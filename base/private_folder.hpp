// Folders and files for this user alone, made in places where other users can write as well, such as /tmp.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace troupe {

/// Makes a folder that only its owner can enter (mode 0700), with the folders above it in the usual mode. One that is
/// there stays as it is. Returns the system's error number; 0: the folder is there.
int make_own_folder(const std::filesystem::path& path);

/// A folder that belongs to this user and that nobody else can enter, kept open. Files are made in the folder that was
/// opened, whatever its path leads to later. Errors are lines for the user that begin with the path.
class private_folder {
 public:
  /// Opens the folder `path`, and makes it first if it is not there. Takes from group and others what they may do with
  /// it. An error if it is a link, is no folder, or belongs to another user.
  static result<private_folder> open(const std::filesystem::path& path);

  /// Makes the folder `path`, or `path`-2, `path`-3, ... if something of that name is there.
  static result<private_folder> create(const std::filesystem::path& path);

  private_folder(private_folder&& other) noexcept;
  private_folder& operator=(private_folder&& other) noexcept;
  ~private_folder();

  const std::filesystem::path& path() const { return path_; }

  /// Whether something of that name is in it; a link counts, wherever it leads.
  bool has(const std::string& name) const;

  /// Writes a new file, mode 0600. An error if something of that name is there: no link is followed.
  result<void> write(const std::string& name, std::string_view bytes) const;

 private:
  private_folder(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace troupe
