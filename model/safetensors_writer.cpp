#include "model/safetensors_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/json_text.hpp"
#include "base/mapped.hpp"
#include "base/text.hpp"

namespace troupe::model {

static_assert(std::endian::native == std::endian::little, "tensors are written as they are in memory");

namespace {

constexpr std::size_t alignment = 8;

struct header_text {
  /// The header's length and JSON in the file's format.
  std::string bytes;
  /// Bytes of all tensors.
  std::uint64_t data_length = 0;
};

/// Makes the header of `tensors`. Requires: they are in the file's order.
result<header_text> make_header(const std::vector<tensor_declaration>& tensors, const tensor_metadata& metadata) {
  std::string json;
  for (const auto& [name, value] : metadata)
    json += fmt::format("{}{}:{}", json.empty() ? "" : ",", json_string(name), json_string(value));
  json = json.empty() ? "{" : fmt::format("{{\"__metadata__\":{{{}}}", json);
  std::uint64_t begin = 0;
  for (const tensor_declaration& one : tensors) {
    const auto length = tensor_bytes(one.type, one.shape);
    std::uint64_t end = 0;
    if (!length || __builtin_add_overflow(begin, *length, &end))
      return run_fault("{} {}: its bytes must be less than 2^64", printable(one.name), shape_text(one.shape));
    json += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json.size() > 1 ? "," : "",
                        json_string(one.name), name_in_file(one.type), fmt::join(one.shape, ","), begin, end);
    begin = end;
  }
  json += "}";
  json.append((alignment - json.size() % alignment) % alignment, ' ');
  if (json.size() > safetensors_header_max)
    return run_fault("header of {} bytes: must be at most {}", json.size(), safetensors_header_max);
  const std::uint64_t length = json.size();
  return header_text{std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json, begin};
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(dtype type, const std::vector<std::uint64_t>& shape) {
  std::uint64_t bytes = size_of(type);
  for (const std::uint64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

result<safetensors_writer> safetensors_writer::create(const std::string& path, std::vector<tensor_declaration> tensors,
                                                      const tensor_metadata& metadata) {
  const auto refuse = [&path](const std::string& why) { return run_fault("{}: {}", printable_path(path), why); };
  std::ranges::sort(tensors, [](const tensor_declaration& a, const tensor_declaration& b) {
    return std::tuple(size_of(b.type), std::string_view(a.name)) <
           std::tuple(size_of(a.type), std::string_view(b.name));
  });
  auto names = mapped<std::string_view>(tensors, &tensor_declaration::name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return refuse(fmt::format("tensor {} is there twice", printable(*twice)));
  auto header = make_header(tensors, metadata);
  if (!header) return refuse(header.error().message);
  std::uint64_t length = 0;
  if (__builtin_add_overflow(header->data_length, header->bytes.size(), &length))
    return refuse("its bytes must be less than 2^64");
  TROUPE_TRY(file, output_file::create(path, length));
  TROUPE_DO(file.append(std::as_bytes(std::span(header->bytes))));
  return safetensors_writer(std::move(file), std::move(tensors));
}

result<written_file> write_safetensors(const std::string& path, std::span<const tensor_view> tensors,
                                       const tensor_metadata& metadata) {
  std::vector<tensor_declaration> declared;
  for (const tensor_view& one : tensors) {
    if (tensor_bytes(one.what.type, one.what.shape) != one.bytes.size())
      return run_fault("{}: {} bytes for tensor {} {} {}", printable_path(path), one.bytes.size(),
                       printable(one.what.name), name_in_file(one.what.type), shape_text(one.what.shape));
    declared.push_back(one.what);
  }
  TROUPE_TRY(writer, safetensors_writer::create(path, std::move(declared), metadata));
  for (const tensor_declaration& next : writer.tensors()) {
    const auto found = std::ranges::find(tensors, next.name, [](const tensor_view& one) { return one.what.name; });
    const std::size_t piece_bytes = found->fetch ? found->piece_bytes : found->bytes.size();
    for (std::span<const std::byte> left = found->bytes; !left.empty();) {
      const auto piece = left.first(std::min(piece_bytes, left.size()));
      left = left.subspan(piece.size());
      TROUPE_DO(writer.append(found->fetch ? found->fetch(piece) : piece));
    }
  }
  return writer.finish();
}

}  // namespace troupe::model
