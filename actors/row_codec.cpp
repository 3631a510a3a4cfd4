#include "actors/row_codec.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "kernels/device.hpp"

namespace troupe::actors {

namespace {

constexpr msg::dtype row_types[] = {msg::dtype::f32, msg::dtype::f16, msg::dtype::bf16};  // by row_dtype's value

}  // namespace

msg::dtype dtype_of(kernels::row_dtype type) { return row_types[static_cast<std::size_t>(type)]; }

std::optional<kernels::row_dtype> row_dtype_of(msg::dtype type) {
  const auto* const at = std::ranges::find(row_types, type);
  if (at == std::end(row_types)) return std::nullopt;
  return static_cast<kernels::row_dtype>(at - row_types);
}

msg::tensor encode_rows(const float* numbers, std::uint64_t rows, std::uint64_t cols, kernels::row_dtype type) {
  const std::size_t size = rows * cols * kernels::size_of(type);
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  std::byte* const data = bytes.get();
  kernels::encode(rows * cols, numbers, {data, type});
  return {dtype_of(type), rows, cols, msg::blob(std::move(bytes), data, size)};
}

void decode_rows(const msg::tensor& from, float* to) {
  kernels::decode({from.bytes.data(), *row_dtype_of(from.type)}, from.rows * from.cols, to);
}

std::size_t find_non_finite(const msg::tensor& numbers) {
  if (numbers.type == msg::dtype::f32) {
    kernels::non_finite found;
    kernels::host_stream().find_non_finite(numbers.rows * numbers.cols, numbers.as<float>().data(), &found);
    return found.place;
  }
  // Exactly NaN and Inf have all bits of the exponent set.
  const std::uint16_t exponent = numbers.type == msg::dtype::f16 ? 0x7c00 : 0x7f80;
  const auto is_bad = [exponent](std::uint16_t pattern) { return (pattern & exponent) == exponent; };
  const auto patterns = numbers.as<std::uint16_t>();
  constexpr std::size_t at_once = 512;  // without a branch, so that the compiler vectorizes it
  for (std::size_t first = 0; first < patterns.size(); first += at_once) {
    const auto part = patterns.subspan(first, std::min(at_once, patterns.size() - first));
    bool any = false;
    for (const std::uint16_t pattern : part) any |= is_bad(pattern);
    if (any) return first + static_cast<std::size_t>(std::ranges::find_if(part, is_bad) - part.begin());
  }
  return patterns.size();
}

}  // namespace troupe::actors
