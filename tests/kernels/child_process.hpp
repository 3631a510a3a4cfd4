// Runs one disabled test of this program, for tests that need a new process because the environment is read only once.

#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

namespace troupe::kernels::test {

/// A running child that writes to a pipe.
class child_process {
 public:
  /// Runs the disabled test `name`, as in "Suite.DISABLED_Name", with `environment`, as in "A=1 B='2 3'".
  child_process(const std::string& name, const std::string& environment) {
    const std::string command = environment + " GTEST_OUTPUT= exec /proc/" + own_number() +
                                "/exe --gtest_also_run_disabled_tests --gtest_filter=" + name + " 2>&1";
    pipe_.reset(popen(command.c_str(), "r"));
  }

  /// Waits for its end; returns its output.
  std::string output() {
    std::string text;
    for (int c = 0; pipe_ != nullptr && (c = std::fgetc(pipe_.get())) != EOF;) text += static_cast<char>(c);
    return text;
  }

 private:
  struct closer {
    void operator()(FILE* pipe) const { pclose(pipe); }
  };

  static std::string own_number() { return std::to_string(getpid()); }

  std::unique_ptr<FILE, closer> pipe_;
};

}  // namespace troupe::kernels::test
