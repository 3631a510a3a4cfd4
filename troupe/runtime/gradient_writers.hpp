// Where a replica's module writes the gradients of its parameters.

#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "actors/trained_parameters.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// A flat sum of gradients, to which passes are added one after another; empty before the first.
class summed_gradient final : public nn::gradient_places {
 public:
  /// `count`: of all parameters.
  summed_gradient(std::vector<float>& sum, std::size_t count) : sum_(sum), adds_(!sum.empty()) { sum.resize(count); }

  float* at(const nn::stretch& which) override {
    if (!adds_) return sum_.data() + which.first;
    further_.resize(std::max(further_.size(), which.count));
    return further_.data();
  }
  void finished(const nn::stretch& which) override {
    if (!adds_) return;
    for (std::size_t i = 0; i < which.count; ++i) sum_[which.first + i] += further_[i];
  }

 private:
  std::vector<float>& sum_;
  bool adds_;
  std::vector<float> further_;
};

/// The buckets of an optimizer step: a sum of earlier passes, if there is one, and the last pass.
class bucket_gradient final : public nn::gradient_places {
 public:
  bucket_gradient(const actors::trained_parameters::gradient_at& at, const actors::trained_parameters::finished& done,
                  std::span<const float> sum)
      : at_(at), done_(done), sum_(sum) {}

  float* at(const nn::stretch& which) override { return last_ = at_({which.first, which.count}); }
  void finished(const nn::stretch& which) override {
    for (std::size_t i = 0; i < which.count && !sum_.empty(); ++i) last_[i] += sum_[which.first + i];
    done_({which.first, which.count});
  }

 private:
  const actors::trained_parameters::gradient_at& at_;
  const actors::trained_parameters::finished& done_;
  std::span<const float> sum_;
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
