#pragma once
#include <cstdint>
#include <span>
#include <cstring>
namespace troupe {
class exact_sum {
 public:
  exact_sum() = default;
  explicit exact_sum(std::span<const std::int64_t> limbs) { std::memcpy(&sum_, limbs.data(), sizeof sum_); }
  void add(double x) { sum_ += x; }
  void merge(const exact_sum& other) { sum_ += other.sum_; }
  double value() const { return sum_; }
  std::span<const std::int64_t> limbs() const { return {reinterpret_cast<const std::int64_t*>(&sum_), 1}; }
 private:
  double sum_ = 0;
};
}
