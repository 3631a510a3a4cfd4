// Arrays of numbers with a type and a shape: tensors, whose copies share their memory, and views of memory that belongs
// to another object.

#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/dtype.hpp"

namespace troupe {

namespace runtime {
class tape;
}

/// The lengths of a tensor's dimensions, the outermost first.
class shape {
 public:
  static constexpr std::size_t dimensions_max = 6;

  shape() = default;
  /// At most `dimensions_max` lengths. Not a std::initializer_list: gcc 12 cannot compile one in a `co_await`
  /// expression.
  template <std::convertible_to<std::size_t>... Lengths>
  requires(sizeof...(Lengths) > 0 && sizeof...(Lengths) <= dimensions_max) shape(Lengths... lengths)
      : lengths_{static_cast<std::size_t>(lengths)...}, dimensions_(static_cast<std::uint8_t>(sizeof...(Lengths))) {}

  /// Makes a shape from a range of lengths. Throws `error` if there are more than `dimensions_max`.
  template <class Range>
  static shape of(const Range& lengths) {
    shape made;
    for (const auto length : lengths) made.append(static_cast<std::size_t>(length));
    return made;
  }

  std::size_t dimensions() const { return dimensions_; }
  bool empty() const { return dimensions_ == 0; }
  void set(std::size_t dimension, std::size_t length) { lengths_[dimension] = length; }
  std::size_t operator[](std::size_t i) const { return lengths_[i]; }
  const std::size_t* begin() const { return lengths_.data(); }
  const std::size_t* end() const { return lengths_.data() + dimensions_; }
  /// The number of elements. Throws `error` if no tensor can hold so many.
  std::size_t count() const {
    std::size_t all = 1;
    bool is_too_large = false;
    for (std::size_t i = 0; i < dimensions_; ++i)
      is_too_large = __builtin_mul_overflow(all, lengths_[i], &all) || is_too_large;
    if (is_too_large) check_has_none();
    return is_too_large ? 0 : all;
  }
  /// Returns the shape with another last dimension. Throws `error` without a dimension.
  shape with_last(std::size_t length) const {
    check_dimensions("with_last");
    shape other = *this;
    other.lengths_[dimensions_ - 1] = length;
    return other;
  }

  /// Returns the shape with another first dimension. Throws `error` without a dimension.
  shape with_first(std::size_t length) const {
    check_dimensions("with_first");
    shape other = *this;
    other.lengths_[0] = length;
    return other;
  }

  /// Returns the shape without its first dimension. Throws `error` without a dimension.
  shape without_first() const {
    check_dimensions("without_first");
    shape other;
    other.dimensions_ = static_cast<std::uint8_t>(dimensions_ - 1);
    std::copy(lengths_.begin() + 1, lengths_.begin() + dimensions_, other.lengths_.begin());
    return other;
  }

  /// Appends a dimension. Throws `error` beyond `dimensions_max`.
  void append(std::size_t length) {
    if (dimensions_ == dimensions_max) refuse_more();
    lengths_[dimensions_++] = length;
  }

  /// Compares all lengths: comparing a variable number of them would be a function call.
  bool operator==(const shape& other) const {
    return dimensions_ == other.dimensions_ &&
           std::memcmp(lengths_.data(), other.lengths_.data(), sizeof lengths_) == 0;
  }

 private:
  [[noreturn]] static void refuse_more();
  void check_has_none() const;
  void check_dimensions(const char* what) const;

  std::array<std::size_t, dimensions_max> lengths_{};  ///< zeros beyond `dimensions_`
  std::uint8_t dimensions_ = 0;
};

/// `[32, 16]`.
std::string to_string(const shape& x);

/// Returns the size in bytes of a tensor of this shape and type. Throws `error` if no memory can hold so many.
std::size_t checked_bytes(const shape& lengths, dtype type);

/// Numbers in row-major order, in host memory. A result of a context refers to its origin, so that the context can pass
/// back through it (context.hpp).
class tensor {
 public:
  tensor() = default;
  /// Uninitialized. Throws `error` if there is no memory for it. A template, so that `tensor({4})` can only mean a
  /// tensor of that shape, not a copy of another one.
  template <class Shape = troupe::shape>
  requires std::same_as<Shape, troupe::shape>
  explicit tensor(const Shape& lengths, dtype type = dtype::f32) : shape_(lengths), type_(type) { allocate(); }
  /// Makes a tensor of numbers in memory that `owner` keeps alive.
  tensor(const shape& lengths, dtype type, std::shared_ptr<std::byte> owner)
      : shape_(lengths), type_(type), memory_(std::move(owner)) {
    if (!is_tensor_type(type)) refuse_numbers();
  }

  /// Copies `numbers`. Throws `error` unless their number fits the shape.
  template <tensor_number T>
  static tensor of(const shape& lengths, std::span<const T> numbers) {
    tensor made(lengths, dtype_of<T>());
    made.check_count(numbers.size());
    std::ranges::copy(numbers, made.as<T>().begin());
    return made;
  }

  dtype type() const { return type_; }
  const troupe::shape& shape() const { return shape_; }
  std::size_t count() const { return memory_ ? shape_.count() : 0; }

  /// The numbers, valid as long as this tensor or a copy lives, so not available on a temporary. Throws `error` if they
  /// have another type.
  template <class T>
  std::span<T> as() const&& = delete;
  template <class T>
  std::span<T> as() const& requires tensor_number<std::remove_const_t<T>> {
    if (type_ != dtype_of<std::remove_const_t<T>>()) refuse_type(dtype_of<std::remove_const_t<T>>());
    return {reinterpret_cast<T*>(memory_.get()), count()};
  }

  /// The numbers as bytes.
  std::span<std::byte> bytes() const&& = delete;
  std::span<std::byte> bytes() const& { return {memory_.get(), count() * size_of(type_)}; }

  /// Returns a copy with its own memory; without numbers, an empty copy.
  tensor clone() const;

  /// The only number. Throws `error` unless there is exactly one.
  double item() const;

  /// Keeps the numbers alive.
  const std::shared_ptr<std::byte>& owner() const { return memory_; }

 private:
  friend class runtime::tape;

  void allocate();
  [[noreturn]] void refuse_numbers() const;
  void check_count(std::size_t given) const;
  [[noreturn]] void refuse_type(dtype wanted) const;

  troupe::shape shape_;
  dtype type_ = dtype::f32;
  std::shared_ptr<std::byte> memory_;
  // The context that computed it, and its index there; 0: none.
  std::uint64_t context_ = 0;
  std::uint32_t node_ = 0;
};

/// A read-only view of a tensor's numbers, or its type and shape alone. The viewed memory must outlive it.
class tensor_view {
 public:
  tensor_view() = default;
  tensor_view(const tensor& of) : shape_(of.shape()), type_(of.type()), numbers_(of.owner().get()) {}
  /// With numbers in any device's memory; null if they do not exist yet.
  tensor_view(const troupe::shape& lengths, const void* numbers = nullptr, dtype type = dtype::f32)
      : shape_(lengths), type_(type), numbers_(numbers) {}

  dtype type() const { return type_; }
  const troupe::shape& shape() const { return shape_; }
  std::size_t count() const { return shape_.count(); }
  const void* data() const { return numbers_; }
  /// Throws `error` if the numbers have another type.
  template <class T>
  std::span<const T> as() const requires tensor_number<std::remove_const_t<T>> {
    if (type_ != dtype_of<std::remove_const_t<T>>()) refuse_type(dtype_of<std::remove_const_t<T>>());
    return {static_cast<const T*>(numbers_), count()};
  }

 private:
  [[noreturn]] void refuse_type(dtype wanted) const;

  troupe::shape shape_;
  dtype type_ = dtype::f32;
  const void* numbers_ = nullptr;
};

/// Numbers of float32 in row-major order, in memory that belongs to another object; T is `float` or `const float`.
/// False without numbers.
template <class T>
class view {
 public:
  view() = default;
  view(T* numbers, const troupe::shape& lengths) : numbers_(numbers), count_(lengths.count()), shape_(lengths) {}
  operator view<const T>() const requires(!std::is_const_v<T>) { return of(static_cast<const T*>(numbers_)); }
  explicit operator bool() const { return numbers_ != nullptr; }

  /// Returns a view of other numbers with this shape.
  template <class Other>
  view<Other> of(Other* numbers) const {
    view<Other> other;
    other.numbers_ = numbers;
    other.count_ = count_;
    other.shape_ = shape_;
    return other;
  }

  const troupe::shape& shape() const { return shape_; }
  std::size_t size() const { return count_; }
  T* data() const { return numbers_; }
  T& operator[](std::size_t i) const { return numbers_[i]; }
  T* begin() const { return numbers_; }
  T* end() const { return numbers_ + count_; }

 private:
  template <class Other>
  friend class view;

  T* numbers_ = nullptr;
  std::size_t count_ = 0;
  troupe::shape shape_;
};

}  // namespace troupe
