// A matrix in a message: dtype and shape in typed fields, the numbers in a blob.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/dtype.hpp"
#include "base/host_memory.hpp"
#include "protocol/blob.hpp"

namespace troupe::msg {

/// Enums travel as their number; loading refuses a number the receiver does not know.
template <class Inspector, class Enum>
bool inspect_enum(Inspector& f, Enum& x, Enum last) {
  auto number = static_cast<std::uint8_t>(x);
  if (!f.apply(number)) return false;
  if constexpr (Inspector::is_loading) {
    if (number > static_cast<std::uint8_t>(last)) {
      f.emplace_error(caf::sec::field_invariant_check_failed, "an enum value that this version does not know");
      return false;
    }
    x = static_cast<Enum>(number);
  }
  return true;
}

/// A row-major matrix [rows, cols]; a vector has one column.
struct tensor {
  dtype type = dtype::f32;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  blob bytes;

  tensor() = default;
  tensor(dtype t, std::uint64_t r, std::uint64_t c, blob b) : type(t), rows(r), cols(c), bytes(std::move(b)) {}

  /// Takes ownership of a contiguous container of rows * cols numbers.
  template <class Range>
  static tensor own(std::uint64_t rows, std::uint64_t cols, Range&& numbers) {
    using number = std::remove_cvref_t<decltype(*std::data(numbers))>;
    return {dtype_of<number>(), rows, cols, blob::own(std::forward<Range>(numbers))};
  }

  template <class T>
  std::span<const T> as() const {
    return bytes.as<T>();
  }

  /// Returns whether the blob's size matches dtype and shape.
  bool consistent() const {
    std::uint64_t count = 0;
    return !__builtin_mul_overflow(rows, cols, &count) && count <= blob::max_bytes * 64 &&
           bytes.size() == count * size_of(type);
  }
};

template <class Inspector>
bool inspect(Inspector& f, tensor& x) {
  if constexpr (requires { f.whole(x); }) return f.whole(x);
  if (!f.object(x).fields(f.field("dtype", x.type), f.field("rows", x.rows), f.field("cols", x.cols),
                          f.field("bytes", x.bytes)))
    return false;
  if constexpr (Inspector::is_loading) {
    if (!x.consistent()) {
      f.emplace_error(caf::sec::field_invariant_check_failed, "a tensor whose bytes do not match its shape");
      return false;
    }
  }
  return true;
}

/// Memory for a tensor under construction: written by one actor, then frozen into a message.
class tensor_buffer {
 public:
  tensor_buffer() = default;
  /// Allocates [rows, cols] of float32, uninitialized.
  tensor_buffer(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols), data_(allocate(rows * cols)) {}

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::size_t size() const { return rows_ * cols_; }

  /// Returns `count` numbers from `first` as a column. Requires: these do not change afterwards; the others may.
  tensor part(std::size_t first, std::size_t count) const {
    return {dtype::f32, count, 1, blob(data_, data_.get() + first, count * sizeof(float))};
  }

  /// Ends the construction: the memory moves into the returned tensor.
  tensor freeze() && {
    const float* data = data_.get();
    return {dtype::f32, rows_, cols_, blob(std::move(data_), data, rows_ * cols_ * sizeof(float))};
  }

 private:
  static std::shared_ptr<float[]> allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    if (bytes < worth_huge_pages) return std::make_shared_for_overwrite<float[]>(count);
    const auto memory = allocate_on_host(bytes);
    return {memory, reinterpret_cast<float*>(memory.get())};
  }

  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::shared_ptr<float[]> data_;
};

// A buffer in device memory that the receiver of a lookup may write.

/// Stays within the process: it is omitted when its message is recorded or sent to another process.
class lookup_destination {
 public:
  virtual ~lookup_destination() = default;
};

}  // namespace troupe::msg

namespace troupe {

template <class Inspector>
bool inspect(Inspector& f, dtype& x) {
  return msg::inspect_enum(f, x, dtype::bf16);
}

}  // namespace troupe
