#include "protocol/content_reader.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/message_content.hpp"

namespace troupe {

namespace {

blob bytes_of(const trace::content_part& part) {
  return blob::own(std::vector<char>(part.bytes.begin(), part.bytes.end()));
}

}  // namespace

std::optional<dtype> dtype_named(std::string_view name) {
  for (const dtype type : {dtype::f32, dtype::f64, dtype::i64, dtype::u64, dtype::f16, dtype::bf16})
    if (name_of(type) == name) return type;
  return {};
}

bool content_reader::take(void* to, std::size_t size) {
  if (fields_.size() < size) return false;
  std::memcpy(to, fields_.data(), size);
  fields_.remove_prefix(size);
  return true;
}

bool content_reader::begin_sequence(std::size_t& size) {
  std::uint32_t count = 0;
  if (!value(count)) return false;
  size = count;
  return true;
}

bool content_reader::value(std::string& x) {
  std::uint32_t size = 0;
  if (!value(size) || fields_.size() < size) return false;
  x = fields_.substr(0, size);
  fields_.remove_prefix(size);
  return true;
}

bool content_reader::whole(tensor& x) {
  if (next_part_ == from_.parts.size()) return false;
  const trace::content_part& part = from_.parts[next_part_++];
  const auto type = dtype_named(part.type);
  if (!type) return false;
  x = tensor(*type, part.rows, part.cols, bytes_of(part));
  return x.consistent();
}

bool content_reader::bulk(blob& x) {
  if (next_part_ == from_.parts.size()) return false;
  x = bytes_of(from_.parts[next_part_++]);
  return true;
}

bool is_kept(const trace::content& one) {
  return digest_of_fields(one.fields) == one.fields_digest &&
         std::ranges::all_of(one.parts, [](const trace::content_part& part) {
           return digest_of(reinterpret_cast<const std::byte*>(part.bytes.data()), part.bytes.size()) == part.digest;
         });
}

}  // namespace troupe
