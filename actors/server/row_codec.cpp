#include "actors/server/row_codec.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/common/failure.hpp"
#include "base/digest.hpp"
#include "kernels/device.hpp"
#include "protocol/server_messages.hpp"

namespace troupe::actors {

msg::tensor encode_rows(const float* numbers, std::uint64_t rows, std::uint64_t cols, kernels::row_dtype type) {
  const std::size_t size = rows * cols * size_of(type);
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  std::byte* const data = bytes.get();
  kernels::encode(rows * cols, numbers, {data, type});
  return {type, rows, cols, msg::blob(std::move(bytes), data, size)};
}

void decode_rows(const msg::tensor& from, float* to) {
  kernels::decode({from.bytes.data(), from.type}, from.rows * from.cols, to);
}

std::size_t find_non_finite(const msg::tensor& numbers) {
  if (numbers.type == dtype::f32) {
    kernels::non_finite found;
    kernels::host_stream().find_non_finite(numbers.rows * numbers.cols, numbers.as<float>().data(), &found);
    return found.place;
  }
  // Only NaN and Inf have all bits of the exponent set.
  const std::uint16_t exponent = numbers.type == dtype::f16 ? 0x7c00 : 0x7f80;
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

caf::expected<msg::tensor> digests_of_rows(const model::embedding_bag& table, std::uint64_t first,
                                           std::uint64_t count) {
  const std::string text = model::description_of(table.options());
  const auto rows = static_cast<std::uint64_t>(table.rows());
  if (count > msg::row_digests_max || first > rows || count > rows - first)
    return make_failure(
        errc::bad_input,
        "{}: digests of {} rows from row {} on; the shard has {} rows, and a message asks for at most {}", text, count,
        first, rows, msg::row_digests_max);
  const bool has_columns = table.options().shard.split == model::table_split::columns;
  const auto type = table.options().dtype;
  const std::size_t row_bytes = table.dim() * size_of(type);
  std::vector<std::byte> copy;
  const auto bytes =
      kernels::on_host(table.stream(), table.weight_bytes().data() + first * row_bytes, count * row_bytes, copy);
  std::vector<std::uint64_t> digests;
  std::vector<float> numbers(table.dim());
  const std::byte* row = bytes.data();
  for (std::uint64_t i = 0; i < count; ++i, row += row_bytes) {
    kernels::decode({row, type}, numbers.size(), numbers.data());
    kernels::non_finite found;
    kernels::host_stream().find_non_finite(numbers.size(), numbers.data(), &found);
    if (found.place < numbers.size())
      return make_failure(
          errc::not_finite, "{}: row {} is NaN or Inf; try {}a smaller learning rate (--sparse-lr) or a larger eps",
          text, table.whole_row(static_cast<std::int64_t>(first + i)),
          type == kernels::row_dtype::f16 ? "rows in bf16 or f32 (--row-dtype), as f16 ends at 65504, " : "");
    if (!has_columns) digests.push_back(digest_of(row, row_bytes));
  }
  if (has_columns)
    return msg::tensor(type, count, table.dim(), msg::blob::own(std::vector<std::byte>(bytes.begin(), bytes.end())));
  return msg::tensor::own(count, 1, std::move(digests));
}

}  // namespace troupe::actors
