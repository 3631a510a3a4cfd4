#include "actors/master/dense_layout.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "actors/common/failure.hpp"

namespace troupe::actors {

namespace {

/// Returns the name of a tensor's weights (array 0) or of their optimizer buffer `array` - 1.
std::string tensor_name(const nn::parameter& tensor, std::size_t array) {
  return array == 0 ? tensor.name : fmt::format("{}.state.{}", tensor.name, array - 1);
}

caf::expected<msg::tensor> read_array(const model::checkpoint& from, const std::vector<nn::parameter>& tensors,
                                      std::size_t array) {
  std::vector<float> flat(nn::count_of(tensors));
  for (const nn::parameter& one : tensors) {
    const auto part = std::as_writable_bytes(std::span(flat).subspan(one.first, one.count()));
    if (auto read = model::read_dense(from, tensor_name(one, array), part); !read)
      return make_failure(errc::bad_input, read.error().message);
  }
  const std::size_t count = flat.size();
  return msg::tensor::own(count, 1, std::move(flat));
}

}  // namespace

std::vector<model::tensor_view> dense_layout::views(std::span<const msg::tensor> arrays) const {
  std::vector<model::tensor_view> all;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const bool is_buffers = !buffers.empty() && i + 1 == arrays.size();
    for (const nn::parameter& one : is_buffers ? buffers : parameters)
      all.push_back({{tensor_name(one, is_buffers ? 0 : i), dtype::f32, {one.shape.begin(), one.shape.end()}},
                     std::as_bytes(arrays[i].as<float>().subspan(one.first, one.count()))});
  }
  return all;
}

caf::expected<std::vector<msg::tensor>> dense_layout::read(const model::checkpoint& from, int state_buffers) const {
  std::vector<msg::tensor> arrays;
  const std::size_t count = 1 + static_cast<std::size_t>(state_buffers) + (buffers.empty() ? 0 : 1);
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_buffers = !buffers.empty() && i + 1 == count;
    auto numbers = read_array(from, is_buffers ? buffers : parameters, is_buffers ? 0 : i);
    if (!numbers) return numbers.error();
    arrays.push_back(std::move(*numbers));
  }
  return arrays;
}

}  // namespace troupe::actors
