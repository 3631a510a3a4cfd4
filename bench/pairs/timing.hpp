// Shared by the programs of this folder: each measures one thing, chosen by `--what`, and prints it with its duration
// in microseconds, like the scripts of bench/pytorch.

#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace troupe::pairs {

/// Times the repetitions of a loop that counts from `-warm_up` to `count`.
class stopwatch {
 public:
  explicit stopwatch(int count) : count_(count) {}

  /// Call at the beginning of each repetition.
  void at(int repetition) {
    if (repetition == 0) begin_ = clock::now();
  }
  /// Microseconds per repetition; call after the last one.
  double each() const { return std::chrono::duration<double, std::micro>(clock::now() - begin_).count() / count_; }

 private:
  using clock = std::chrono::steady_clock;

  int count_;
  clock::time_point begin_;
};

inline void report(const std::string& what, double microseconds) {
  std::printf("%s %.3f\n", what.c_str(), microseconds);
  std::fflush(stdout);
}

}  // namespace troupe::pairs
