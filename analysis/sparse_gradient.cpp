#include "analysis/sparse_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace troupe::analysis {

namespace {

/// Takes fields apart, in the order of the protocol's inspect functions: numbers as they are, text and lists after
/// their length.
class field_reader {
 public:
  explicit field_reader(std::string_view fields) : rest_(fields) {}

  template <class T>
  T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      failed_ = true;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }

  std::string_view text() {
    const std::size_t size = number<std::uint32_t>();
    if (rest_.size() < size) failed_ = true;
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(value.size());
    return value;
  }

  bool failed() const { return failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <class T>
T at(const std::string& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

/// IEEE 754 binary16.
double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double fraction = bits & 0x3ff;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  constexpr int special = 0x1f;
  if (exponent == special) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// Number `i` of a part of floating-point numbers.
double real_at(const content_part& part, std::size_t i) {
  if (part.type == "float16") return half(at<std::uint16_t>(part.bytes, i));
  if (part.type == "bfloat16") return std::bit_cast<float>(std::uint32_t{at<std::uint16_t>(part.bytes, i)} << 16);
  return at<float>(part.bytes, i);
}

std::size_t size_of_real(const content_part& part) {
  if (part.type == "float16" || part.type == "bfloat16") return sizeof(std::uint16_t);
  return part.type == "float32" ? sizeof(float) : 0;
}

/// The parts of one table's gradient.
struct gradient_parts {
  const content_part* indices = nullptr;
  const content_part* offsets = nullptr;
  const content_part* weights = nullptr;
  const content_part* grad = nullptr;

  std::size_t count() const { return indices->bytes.size() / sizeof(std::int64_t); }
  std::size_t bags() const { return offsets->bytes.size() / sizeof(std::int64_t); }
  /// Also: `dim` numbers are there for each row. Without rows `dim` may be any number.
  bool fit(std::uint64_t dim) const {
    if (indices == nullptr || offsets == nullptr || weights == nullptr || grad == nullptr) return false;
    const std::uint64_t rows = bags() > 0 ? bags() : count();
    const bool has_weights = !weights->bytes.empty();
    const std::size_t number_bytes = size_of_real(*grad);
    if (dim == 0 || grad->cols != dim || grad->rows != rows || number_bytes == 0) return false;
    // By division: the product of what a file claims may not fit in 64 bits.
    const std::uint64_t row_bytes = rows > 0 ? grad->bytes.size() / rows : 0;
    return row_bytes * rows == grad->bytes.size() && row_bytes % number_bytes == 0 &&
           (rows == 0 || row_bytes / number_bytes == dim) &&
           (!has_weights || weights->bytes.size() / sizeof(float) == count());
  }
};

gradient_parts parts_of(const content& gradient, std::size_t i) {
  const std::string prefix = fmt::format("tables[{}].", i);
  gradient_parts found;
  for (const content_part& part : gradient.parts) {
    if (!part.name.starts_with(prefix)) continue;
    const std::string_view name = std::string_view(part.name).substr(prefix.size());
    if (name == "indices") found.indices = &part;
    if (name == "offsets") found.offsets = &part;
    if (name == "weights") found.weights = &part;
    if (name == "grad") found.grad = &part;
  }
  return found;
}

}  // namespace

std::optional<table_shard> shard_of(const content& instantiate) {
  field_reader from(instantiate.fields);
  if (from.text() != "EmbeddingBag") return {};
  table_shard made;
  const auto arguments = from.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < arguments && !from.failed(); ++i) {
    const std::string_view name = from.text();
    const std::string_view value = from.text();
    if (name == "table") made.table = number_in(value);
    if (name == "num_embeddings") made.rows = number_in(value);
    if (name == "embedding_dim") made.dim = number_in(value);
    if (name == "mode") made.is_mean = value == "mean";
  }
  made.shard = from.number<std::uint32_t>();
  made.shards = from.number<std::uint32_t>();
  if (from.failed() || made.shards == 0) return {};
  return made;
}

std::optional<gradient_fields> fields_of(const content& gradient) {
  field_reader from(gradient.fields);
  gradient_fields made;
  made.rank = from.number<std::uint32_t>();
  from.number<std::uint8_t>();  // has_batch
  from.number<std::uint8_t>();  // step
  const auto tables = from.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < tables && !from.failed(); ++i) made.modules.push_back(from.number<std::uint64_t>());
  if (from.failed()) return {};
  return made;
}

std::optional<summed_row> gradient_of_row(const content& gradient, std::size_t i, const table_shard& of,
                                          std::uint64_t place) {
  const gradient_parts parts = parts_of(gradient, i);
  if (!parts.fit(of.dim)) return {};
  summed_row made;
  const std::size_t count = parts.count();
  const std::size_t bags = parts.bags();
  const auto begin_of = [&](std::size_t bag) {
    return bag < bags ? std::min(at<std::uint64_t>(parts.offsets->bytes, bag), std::uint64_t{count}) : count;
  };
  std::size_t bag = 0;
  for (std::size_t k = 0; k < count; ++k) {
    while (bag + 1 < bags && begin_of(bag + 1) <= k) ++bag;
    if (at<std::uint64_t>(parts.indices->bytes, k) != place) continue;
    ++made.occurrences;
    made.sum.resize(of.dim);  // the gradient has at least one row of `dim` numbers
    double factor = parts.weights->bytes.empty() ? 1 : at<float>(parts.weights->bytes, k);
    if (bags > 0 && of.is_mean) {
      const std::size_t length = begin_of(bag + 1) - begin_of(bag);
      factor = length > 0 ? 1.0F / static_cast<float>(length) : 0;
    }
    const std::size_t from = (bags > 0 ? bag : k) * of.dim;
    for (std::size_t d = 0; d < of.dim; ++d) made.sum[d] += factor * real_at(*parts.grad, from + d);
  }
  return made;
}

}  // namespace troupe::analysis
