// The named tensors of a module's parameters or buffers, and their flat buffer.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nn/tensor.hpp"

namespace troupe::nn {

/// A tensor of a module's flat buffer, with PyTorch's name for it: `weight`, `0.bias`.
struct parameter {
  std::string name;
  troupe::shape shape = {};
  /// Its offset in the flat buffer, set by `placed`: a module need not set it.
  std::size_t first = 0;

  std::size_t count() const { return shape.count(); }

  bool operator==(const parameter&) const = default;
};

/// A range of a flat buffer of parameters.
struct parameter_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Returns the number of floats in all tensors. Throws `error` if no memory can hold so many.
std::size_t count_of(std::span<const parameter> tensors);

/// Returns the tensors with their offsets, one after the other, without gaps.
std::vector<parameter> placed(std::vector<parameter> tensors);

/// Appends tensors, with `prefix` and a dot before their names.
void append_named(std::vector<parameter>& to, const std::string& prefix, std::vector<parameter> tensors);

/// A flat buffer as views of its tensors, in order. T is `float` or `const float`. Buffer and tensors outlive it.
template <class T>
class tensor_list {
 public:
  tensor_list() = default;
  tensor_list(T* numbers, std::span<const parameter> tensors) : numbers_(numbers), tensors_(tensors) {}

  view<T> operator[](std::size_t i) const { return {numbers_ + tensors_[i].first, tensors_[i].shape}; }
  std::size_t size() const { return tensors_.size(); }
  T* data() const { return numbers_; }
  std::span<const parameter> tensors() const { return tensors_; }
  explicit operator bool() const { return numbers_ != nullptr; }

 private:
  T* numbers_ = nullptr;
  std::span<const parameter> tensors_;
};

}  // namespace troupe::nn
