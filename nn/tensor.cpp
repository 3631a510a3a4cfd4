#include "nn/tensor.hpp"

#include <fmt/format.h>

#include <new>

#include "base/error.hpp"
#include "base/host_memory.hpp"
#include "kernels/device.hpp"

namespace troupe {

namespace {

[[noreturn]] void refuse(dtype given, dtype wanted) {
  throw error(error_kind::input, fmt::format("a tensor of {} where {} is wanted", name_of(given), name_of(wanted)));
}

}  // namespace

std::size_t checked_bytes(const shape& lengths, dtype type) {
  std::size_t bytes = size_of(type);
  bool is_too_large = false;
  for (const std::size_t length : lengths) is_too_large = __builtin_mul_overflow(bytes, length, &bytes) || is_too_large;
  if (!is_too_large && bytes <= std::size_t{PTRDIFF_MAX}) return bytes;
  if (std::ranges::find(lengths, std::size_t{0}) == lengths.end())
    throw error(error_kind::input, fmt::format("a tensor {} of {}: it has more than {} bytes; try a smaller one",
                                               to_string(lengths), name_of(type), PTRDIFF_MAX));
  return 0;
}

void shape::refuse_more() {
  throw error(error_kind::input, fmt::format("shape::of: more than {} lengths; a tensor has at most {} dimensions",
                                             dimensions_max, dimensions_max));
}

void shape::check_dimensions(const char* what) const {
  if (dimensions_ == 0)
    throw error(error_kind::input, fmt::format("{} of a shape without dimensions; it has none to change", what));
}

/// Throws, as the product is too large, unless some length is 0.
void shape::check_has_none() const {
  const auto end = lengths_.begin() + dimensions_;
  if (std::find(lengths_.begin(), end, std::size_t{0}) == end)
    throw error(error_kind::input,
                fmt::format("a shape {}: it has more numbers than any memory; try a smaller one", to_string(*this)));
}

std::string to_string(const shape& x) {
  std::string text;
  for (std::size_t i = 0; i < x.dimensions(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", x[i]);
  return fmt::format("[{}]", text);
}

void tensor::refuse_numbers() const {
  throw error(error_kind::input, fmt::format("a tensor {} of {}: tensors have float32, float64 or int64",
                                             to_string(shape_), name_of(type_)));
}

void tensor::allocate() {
  if (!is_tensor_type(type_)) refuse_numbers();
  // Smaller blocks are allocated faster below.
  const std::size_t bytes = checked_bytes(shape_, type_);
  if (bytes >= worth_huge_pages) {
    try {
      memory_ = kernels::host_device().allocate(bytes);
    } catch (const std::bad_alloc&) {
      throw error(error_kind::run,
                  fmt::format("a tensor {} of {}: there is no memory for its {} bytes; try a smaller one",
                              to_string(shape_), name_of(type_), bytes));
    }
    return;
  }
  auto numbers = std::make_shared_for_overwrite<std::byte[]>(bytes);
  std::byte* const first = numbers.get();
  memory_ = {std::move(numbers), first};
}

void tensor::check_count(std::size_t given) const {
  if (given != shape_.count())
    throw error(error_kind::input, fmt::format("{} numbers for a tensor of shape {}", given, to_string(shape_)));
}

void tensor::refuse_type(dtype wanted) const { refuse(type_, wanted); }

void tensor_view::refuse_type(dtype wanted) const { refuse(type_, wanted); }

tensor tensor::clone() const {
  if (!memory_) return {};
  tensor made(shape_, type_);
  std::ranges::copy(bytes(), made.memory_.get());
  return made;
}

double tensor::item() const {
  if (count() != 1)
    throw error(error_kind::input, fmt::format("item() of a tensor {} of {} numbers; it takes one of a single number",
                                               to_string(shape_), count()));
  if (type_ == dtype::f32) return static_cast<double>(as<float>()[0]);
  return type_ == dtype::f64 ? as<double>()[0] : static_cast<double>(as<std::int64_t>()[0]);
}

}  // namespace troupe
