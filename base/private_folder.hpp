// Folders and files that only this user can access, in places where other users can also write, such as /tmp.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace troupe {

/// Makes a folder of mode 0700, and its parents with the usual mode. An existing folder stays unchanged. Returns 0 if
/// the folder exists now, else errno.
int make_own_folder(const std::filesystem::path& path);

/// An open folder that belongs to this user and that only this user can access. Files are made in the opened folder,
/// even if its path leads elsewhere later. Errors are lines for the user that begin with the path.
class private_folder {
 public:
  /// Opens the folder `path`; makes it first if it does not exist. Removes the rights of group and others. An error if
  /// it is a link, is not a folder, or belongs to another user.
  static result<private_folder> open(const std::filesystem::path& path);

  /// Makes the folder `path`, or `path`-2, `path`-3, ... if that name exists.
  static result<private_folder> create(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  /// Returns whether that name exists in the folder. A link counts even if its target does not exist.
  bool has(const std::string& name) const;

  /// Writes a new file of mode 0600. An error if the name exists: no link is followed.
  result<void> write(const std::string& name, std::string_view bytes) const;

 private:
  private_folder(std::filesystem::path path, descriptor opened) : path_(std::move(path)), folder_(std::move(opened)) {}

  std::filesystem::path path_;
  descriptor folder_;
};

}  // namespace troupe
