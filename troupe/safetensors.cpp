#include "troupe/safetensors.hpp"

#include <fmt/format.h>

#include <utility>

#include "model/safetensors.hpp"
#include "model/safetensors_writer.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe {

namespace {

/// Returns the value, or throws the fault.
template <class T>
T value_of(result<T> from) {
  if (!from)
    throw error(from.error().kind == fault_kind::input ? error_kind::input : error_kind::run, from.error().message);
  return std::move(*from);
}

tensor read_tensor(const model::safetensors_file& file, const std::string& path, const std::string& name,
                   const model::tensor_entry& entry) {
  if (!entry.type || !is_tensor_type(*entry.type) || entry.shape.size() > shape::dimensions_max)
    throw error(error_kind::input,
                fmt::format("{}: tensor '{}' is {} of {}; F32, F64 and I64 of at most {} dimensions "
                            "can be read; name the tensors that you want, if it is not one of them",
                            path, name, model::shape_text(entry.shape), entry.type_text, shape::dimensions_max));
  tensor numbers(shape::of(entry.shape), *entry.type);
  if (const auto read = file.read_range(entry, 0, numbers.bytes()); !read)
    throw error(error_kind::input, read.error().message);
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
    views.push_back({{name, numbers.type(), runtime::lengths_of(numbers.shape())}, numbers.bytes()});
  }
  value_of(model::write_safetensors(path, views, {}));
}

}  // namespace troupe
