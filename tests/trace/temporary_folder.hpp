// A folder that is removed at the end of the test.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace troupe::trace {

class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace troupe::trace
