// Files that tests write.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace troupe::model {

/// A temporary file, removed with this object.
class temporary_file {
 public:
  explicit temporary_file(const std::string& content) {
    static int count = 0;
    path_ = fmt::format("{}troupe_model_test_{}_{}", testing::TempDir(), ::getpid(), count++);
    write(content);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

  void write(const std::string& content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc).write(content.data(), std::ssize(content));
  }

  /// Changes one byte in place.
  void overwrite(std::size_t place, char byte) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place)).put(byte);
  }

 private:
  std::string path_;
};

}  // namespace troupe::model
