// Where a replica's module writes the gradients of its parameters.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "kernels/device_array.hpp"
#include "nn/module.hpp"

namespace troupe::runtime {

/// sum += more.
inline void add_gradient(kernels::stream& on, std::size_t count, const float* more, float* sum) {
  const std::array<const float*, 2> parts = {sum, more};
  on.sum_in_rank_order(parts, count, 1.0F, sum);
}

/// Sums the gradients of passes, flat, one pass after another; empty before the first.
class summed_gradient final : public nn::gradient_places {
 public:
  /// `count`: the number of all parameters. Must outlive the work that the pass enqueues on `on`.
  summed_gradient(kernels::stream& on, kernels::device_array<float>& sum, std::size_t count)
      : on_(on), sum_(sum), adds_(sum.size() > 0) {
    sum.resize(on, count);
  }

  float* at(const nn::parameter_range& which) override {
    if (adds_ && further_.size() == 0) further_.resize(on_, sum_.size());
    return (adds_ ? further_.data() : sum_.data()) + which.first;
  }
  void finished(const nn::parameter_range& which) override {
    if (adds_) add_gradient(on_, which.count, further_.data() + which.first, sum_.data() + which.first);
  }

 private:
  kernels::stream& on_;
  kernels::device_array<float>& sum_;
  bool adds_;
  kernels::device_array<float> further_;
};

/// Writes the buckets of an optimizer step: the last pass, added to the sum of earlier passes, if there is one.
class bucket_gradient final : public nn::gradient_places {
 public:
  /// `sum`: all parameters' gradients as one array; null: there is no earlier pass.
  bucket_gradient(kernels::stream& on, nn::gradient_places& buckets, const float* sum)
      : on_(on), buckets_(buckets), sum_(sum) {}

  float* at(const nn::parameter_range& which) override {
    float* const there = buckets_.at(which);
    if (sum_ != nullptr) asked_.push_back(there);
    return there;
  }
  void finished(const nn::parameter_range& which) override {
    if (sum_ != nullptr) {
      add_gradient(on_, which.count, sum_ + which.first, asked_.at(finished_));
      ++finished_;
    }
    buckets_.finished(which);
  }

 private:
  kernels::stream& on_;
  nn::gradient_places& buckets_;
  const float* sum_;
  std::vector<float*> asked_;  ///< with a sum: the addresses of ranges, in the order in which they are finished
  std::size_t finished_ = 0;
};

/// Throws `error` unless a module writes its ranges one by one, from the last to the first.
class checked_places final : public nn::gradient_places {
 public:
  checked_places(const nn::module& of, std::span<const nn::parameter_range> all, nn::gradient_places& to)
      : module_(of), not_asked_(all), left_(all), to_(to) {}

  float* at(const nn::parameter_range& which) override {
    take(which, not_asked_);
    return to_.at(which);
  }
  void finished(const nn::parameter_range& which) override {
    take(which, left_);
    to_.finished(which);
  }
  /// Checks that the pass has written everything.
  void check_end() const;

 private:
  void take(const nn::parameter_range& which, std::span<const nn::parameter_range>& from) const;

  const nn::module& module_;
  std::span<const nn::parameter_range> not_asked_;
  std::span<const nn::parameter_range> left_;
  nn::gradient_places& to_;
};

}  // namespace troupe::runtime
