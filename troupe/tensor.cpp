#include "troupe/tensor.hpp"

#include <fmt/format.h>

#include "kernels/device.hpp"
#include "troupe/error.hpp"

namespace troupe {

std::string to_string(dtype x) {
  constexpr const char* names[] = {"float32", "float64", "int64"};
  return names[static_cast<std::size_t>(x)];
}

std::string to_string(const shape& x) {
  std::string text;
  for (std::size_t i = 0; i < x.dimensions(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", x[i]);
  return fmt::format("[{}]", text);
}

void tensor::allocate() {
  // The host's device gives large memory huge pages; small memory comes sooner from here.
  constexpr std::size_t worth_huge_pages = std::size_t{4} << 20;
  const std::size_t bytes = shape_.count() * size_of(type_);
  if (bytes >= worth_huge_pages) {
    memory_ = kernels::host_device().allocate(bytes);
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

void tensor::check_type(dtype wanted) const {
  if (wanted != type_)
    throw error(error_kind::input,
                fmt::format("a tensor of {} where {} is wanted", to_string(type_), to_string(wanted)));
}

double tensor::item() const {
  check_count(1);
  if (type_ == dtype::f32) return static_cast<double>(as<float>()[0]);
  return type_ == dtype::f64 ? as<double>()[0] : static_cast<double>(as<std::int64_t>()[0]);
}

}  // namespace troupe
