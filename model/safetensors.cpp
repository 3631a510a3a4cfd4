#include "model/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.hpp"

namespace troupe::model {

static_assert(std::endian::native == std::endian::little, "tensors are read as they are in the file");

namespace {

constexpr std::uint64_t length_bytes = 8;

}  // namespace

result<safetensors_file> safetensors_file::open(const std::string& path) {
  TROUPE_TRY(opened, input_file::open(path, "a safetensors file"));
  return open(std::move(opened));
}

result<safetensors_file> safetensors_file::open(input_file&& opened) {
  safetensors_file file(std::move(opened));
  const auto refuse = [&](const std::string& why) { return bad_input("{}: {}", file.name(), why); };
  const std::uint64_t length = file.file_.length();
  if (length < length_bytes)
    return refuse(fmt::format("{} bytes: a safetensors file has at least {}", length, length_bytes));
  std::uint64_t header_size = 0;
  TROUPE_DO(file.file_.read(0, std::as_writable_bytes(std::span(&header_size, 1))));
  const std::uint64_t limit = std::min(length - length_bytes, safetensors_header_max);
  if (header_size > limit)
    return refuse(fmt::format("header of {} bytes: must be at most {} in this file; is it a safetensors file?",
                              header_size, limit));
  std::string json(header_size, '\0');
  TROUPE_DO(file.file_.read(length_bytes, std::as_writable_bytes(std::span(json))));
  file.data_begin_ = length_bytes + header_size;
  auto header = parse_safetensors_header(json, length - file.data_begin_);
  if (!header) return refuse(header.error().message);
  file.header_ = std::move(*header);
  return file;
}

const tensor_entry* safetensors_file::find(std::string_view name) const {
  const auto found = header_.tensors.find(name);
  return found == header_.tensors.end() ? nullptr : &found->second;
}

result<const tensor_entry*> safetensors_file::known(std::string_view name) const {
  if (const auto* entry = find(name)) return entry;
  return bad_input("{}: tensor {} is missing", file_.name(), printable(name));
}

template <class T>
result<std::vector<T>> safetensors_file::read_as(const tensor_entry& entry) const {
  std::vector<T> values((entry.end - entry.begin) / sizeof(T));
  TROUPE_DO(read_range(entry, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

template <class To>
result<std::vector<To>> safetensors_file::read_reals(std::string_view name) const {
  TROUPE_TRY(entry, known(name));
  const auto convert = [](const auto& values) -> result<std::vector<To>> {
    if (!values) return tl::unexpected(values.error());
    return std::vector<To>(values->begin(), values->end());
  };
  if (entry->type == dtype::f32) return convert(read_as<float>(*entry));
  if (entry->type == dtype::f64) return convert(read_as<double>(*entry));
  return bad_input("{}: tensor {} of type {}: must be F32 or F64", file_.name(), printable(name),
                   printable(entry->type_text));
}

result<std::vector<float>> safetensors_file::read_floats(std::string_view name) const {
  return read_reals<float>(name);
}

result<std::vector<double>> safetensors_file::read_doubles(std::string_view name) const {
  return read_reals<double>(name);
}

result<std::vector<std::int64_t>> safetensors_file::read_integers(std::string_view name) const {
  TROUPE_TRY(entry, known(name));
  if (entry->type == dtype::i64) return read_as<std::int64_t>(*entry);
  return bad_input("{}: tensor {} of type {}: must be I64", file_.name(), printable(name), printable(entry->type_text));
}

result<std::vector<std::byte>> safetensors_file::read_bytes(std::string_view name) const {
  TROUPE_TRY(entry, known(name));
  return read_as<std::byte>(*entry);
}

result<void> safetensors_file::read_range(const tensor_entry& entry, std::uint64_t offset,
                                          std::span<std::byte> to) const {
  return file_.read(data_begin_ + entry.begin + offset, to);
}

}  // namespace troupe::model
