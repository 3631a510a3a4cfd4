#include "actors/row_digests.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "actors/failure.hpp"
#include "actors/row_codec.hpp"
#include "base/digest.hpp"
#include "kernels/device.hpp"
#include "protocol/server_messages.hpp"

namespace troupe::actors {

caf::expected<msg::tensor> digests_of_rows(const model::embedding_bag& table, std::uint64_t first,
                                           std::uint64_t count) {
  const std::string words = model::words_of(table.options());
  const auto rows = static_cast<std::uint64_t>(table.rows());
  if (count > msg::row_digests_max || first > rows || count > rows - first)
    return make_failure(
        errc::bad_input,
        "{}: digests of {} rows from row {} on; the shard has {} rows, and a message asks for at most {}", words, count,
        first, rows, msg::row_digests_max);
  const bool has_columns = table.options().shard.split == model::table_split::columns;
  const auto type = table.options().dtype;
  const std::size_t row_bytes = table.dim() * kernels::size_of(type);
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
          words, table.whole_row(static_cast<std::int64_t>(first + i)),
          type == kernels::row_dtype::f16 ? "rows in bf16 or f32 (--row-dtype), as f16 ends at 65504, " : "");
    if (!has_columns) digests.push_back(digest_of(row, row_bytes));
  }
  if (has_columns)
    return msg::tensor(dtype_of(type), count, table.dim(),
                       msg::blob::own(std::vector<std::byte>(bytes.begin(), bytes.end())));
  return msg::tensor::own(count, 1, std::move(digests));
}

}  // namespace troupe::actors
