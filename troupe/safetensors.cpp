#include "troupe/safetensors.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/safetensors.hpp"
#include "model/safetensors_writer.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe {

namespace {

/// The value, or its fault as an exception.
template <class T>
T value_of(result<T> from) {
  if (!from)
    throw error(from.error().kind == fault_kind::input ? error_kind::input : error_kind::run, from.error().message);
  return std::move(*from);
}

std::optional<dtype> read_type(model::tensor_type type) {
  switch (type) {
    case model::tensor_type::f32:
      return dtype::f32;
    case model::tensor_type::f64:
      return dtype::f64;
    case model::tensor_type::i64:
      return dtype::i64;
    default:
      return {};
  }
}

model::tensor_type written_type(dtype type) {
  constexpr model::tensor_type types[] = {model::tensor_type::f32, model::tensor_type::f64, model::tensor_type::i64};
  return types[static_cast<std::size_t>(type)];
}

tensor read_tensor(const model::safetensors_file& file, const std::string& path, const std::string& name,
                   const model::tensor_entry& entry) {
  const auto type = read_type(entry.type);
  if (!type || entry.shape.size() > shape::dimensions_max)
    throw error(error_kind::input,
                fmt::format("{}: tensor '{}' is {} of {}; F32, F64 and I64 of at most {} dimensions "
                            "can be read; name the tensors that you want, if it is not one of them",
                            path, name, model::shape_text(entry.shape), entry.type_text(), shape::dimensions_max));
  tensor numbers(shape::of(entry.shape), *type);
  const std::span<std::byte> bytes(numbers.owner().get(), entry.end - entry.begin);
  if (const auto read = file.read_range(entry, 0, bytes); !read) throw error(error_kind::input, read.error().message);
  return numbers;
}

}  // namespace

named_tensors load_safetensors(const std::string& path) {
  const auto file = value_of(model::safetensors_file::open(path));
  named_tensors all;
  for (const auto& [name, entry] : file.header().tensors) all.emplace_back(name, read_tensor(file, path, name, entry));
  return all;
}

named_tensors load_safetensors(const std::string& path, const std::vector<std::string>& names) {
  const auto file = value_of(model::safetensors_file::open(path));
  named_tensors all;
  for (const std::string& name : names) {
    const model::tensor_entry* entry = file.find(name);
    if (entry == nullptr) throw error(error_kind::input, fmt::format("{}: tensor '{}' is missing", path, name));
    all.emplace_back(name, read_tensor(file, path, name, *entry));
  }
  return all;
}

void save_safetensors(const std::string& path, const named_tensors& tensors) {
  std::vector<model::tensor_view> views;
  for (const auto& [name, numbers] : tensors) {
    if (!numbers.owner()) throw error(error_kind::input, fmt::format("{}: tensor '{}' has no numbers", path, name));
    views.push_back({{name, written_type(numbers.type()), runtime::lengths_of(numbers.shape())},
                     {numbers.owner().get(), numbers.count() * size_of(numbers.type())}});
  }
  value_of(model::write_safetensors(path, views, {}));
}

}  // namespace troupe
