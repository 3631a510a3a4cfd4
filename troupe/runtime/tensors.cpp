#include "troupe/runtime/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "troupe/error.hpp"

namespace troupe::runtime {

std::vector<std::uint64_t> lengths_of(const shape& x) {
  std::vector<std::uint64_t> lengths;
  for (std::size_t i = 0; i < x.dimensions(); ++i) lengths.push_back(x[i]);
  return lengths;
}

msg::tensor copy_of(const tensor& x) {
  constexpr msg::dtype types[] = {msg::dtype::f32, msg::dtype::f64, msg::dtype::i64};
  const std::size_t bytes = x.count() * size_of(x.type());
  std::vector<std::byte> copy(bytes);
  if (bytes > 0) std::memcpy(copy.data(), x.owner().get(), bytes);
  return {types[static_cast<std::size_t>(x.type())], x.count(), 1, msg::blob::own(std::move(copy))};
}

tensor to_tensor(const msg::tensor& x, const std::vector<std::uint64_t>& lengths) {
  const bool has_counterpart = x.type == msg::dtype::f32 || x.type == msg::dtype::f64 || x.type == msg::dtype::i64;
  if (!has_counterpart || lengths.size() > shape::dimensions_max)
    throw error(error_kind::input,
                fmt::format("a tensor of {} with {} dimensions: tensors here have float32, float64 or "
                            "int64, and at most {} dimensions",
                            name_of(x.type), lengths.size(), shape::dimensions_max));
  const shape wanted = shape::of(lengths);
  const dtype type = x.type == msg::dtype::f32 ? dtype::f32 : x.type == msg::dtype::f64 ? dtype::f64 : dtype::i64;
  if (wanted.count() * size_of(type) != x.bytes.size())
    throw error(error_kind::input, fmt::format("a tensor {} with {} bytes", to_string(wanted), x.bytes.size()));
  tensor made(wanted, type);
  if (!x.bytes.empty()) std::memcpy(made.owner().get(), x.bytes.data(), x.bytes.size());
  return made;
}

}  // namespace troupe::runtime
