// Where a replica's module writes the gradients of its parameters.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "actors/trained_parameters.hpp"
#include "kernels/device_array.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// sum += more.
inline void add_gradient(kernels::stream& on, std::size_t count, const float* more, float* sum) {
  const std::array<const float*, 2> parts = {sum, more};
  on.sum_in_rank_order(parts, count, 1.0F, sum);
}

/// A flat sum of gradients, to which passes are added one after another; empty before the first.
class summed_gradient final : public nn::gradient_places {
 public:
  /// `count`: of all parameters. Must outlive the work that the pass enqueues on `on`.
  summed_gradient(kernels::stream& on, kernels::device_array<float>& sum, std::size_t count)
      : on_(on), sum_(sum), adds_(sum.size() > 0) {
    sum.resize(on, count);
  }

  float* at(const nn::stretch& which) override {
    return adds_ ? further_.make(on_, which.count) : sum_.data() + which.first;
  }
  void finished(const nn::stretch& which) override {
    if (adds_) add_gradient(on_, which.count, further_.data(), sum_.data() + which.first);
  }

 private:
  kernels::stream& on_;
  kernels::device_array<float>& sum_;
  bool adds_;
  kernels::device_array<float> further_;
};

/// The buckets of an optimizer step: a sum of earlier passes, if there is one, and the last pass.
class bucket_gradient final : public nn::gradient_places {
 public:
  /// `sum`: flat; null: there is none.
  bucket_gradient(kernels::stream& on, const actors::trained_parameters::gradient_at& at,
                  const actors::trained_parameters::finished& done, const float* sum)
      : on_(on), at_(at), done_(done), sum_(sum) {}

  float* at(const nn::stretch& which) override { return last_ = at_({which.first, which.count}); }
  void finished(const nn::stretch& which) override {
    if (sum_ != nullptr) add_gradient(on_, which.count, sum_ + which.first, last_);
    done_({which.first, which.count});
  }

 private:
  kernels::stream& on_;
  const actors::trained_parameters::gradient_at& at_;
  const actors::trained_parameters::finished& done_;
  const float* sum_;
  float* last_ = nullptr;
};

/// Throws `error` if a module does not write its stretches one by one, from the last to the first.
class checked_places final : public nn::gradient_places {
 public:
  checked_places(const nn::module& of, std::span<const nn::stretch> all, nn::gradient_places& to)
      : module_(of), left_(all), to_(to) {}

  float* at(const nn::stretch& which) override {
    check(which);
    return to_.at(which);
  }
  void finished(const nn::stretch& which) override {
    check(which);
    to_.finished(which);
    left_ = left_.first(left_.size() - 1);
  }
  /// The pass is over.
  void check_end() const;

 private:
  void check(const nn::stretch& which) const;

  const nn::module& module_;
  std::span<const nn::stretch> left_;
  nn::gradient_places& to_;
};

}  // namespace troupe::runtime
