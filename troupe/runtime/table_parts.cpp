#include "troupe/runtime/table_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "model/table_split.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/module_plans.hpp"

namespace troupe::runtime {

namespace {

model::shard_of shard_of_table(const reference& table, std::size_t index) {
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(table.shards()),
          table_of(table.what().details).split};
}

/// Returns the shape of a shard's part of a matrix [num_embeddings, columns].
shape part_shape(const shape& whole, model::shard_of shard) {
  return {rows_on(whole[0], shard), columns_on(whole[1], shard).count};
}

/// Calls `copy` for each row of the shard's part, with its bytes in the whole matrix and in the part.
template <class Copy>
void for_each_row(const tensor& whole, const tensor& part, model::shard_of shard, const Copy& copy) {
  const std::size_t width = whole.shape()[1];
  const auto [first, count] = columns_on(width, shard);
  const std::size_t bytes = count * size_of(whole.type());
  const auto all = whole.bytes();
  const auto some = part.bytes();
  for (std::size_t row = 0; row < part.shape()[0]; ++row)
    copy(all.subspan((whole_row(row, shard) * width + first) * size_of(whole.type()), bytes),
         some.subspan(row * bytes, bytes));
}

}  // namespace

shape table_shape(const reference& table) {
  const nn::embedding_bag::options options = table_of(table.what().details);
  return {static_cast<std::size_t>(options.num_embeddings), options.embedding_dim};
}

named_tensors join_parts(const reference& module, const std::vector<named_tensors>& parts) {
  named_tensors joined = parts.front();
  if (parts.size() == 1) return joined;
  const shape table = table_shape(module);
  const bool by_columns = table_of(module.what().details).split == nn::table_split::columns;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    tensor& whole = joined[i].second;
    if (whole.shape().dimensions() != 2) continue;  // the entry that names the optimizer
    whole = tensor(by_columns ? table : table.with_last(whole.shape()[1]), whole.type());
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const model::shard_of shard = shard_of_table(module, s);
      const bool fits = parts[s].size() == joined.size() && parts[s][i].first == joined[i].first &&
                        parts[s][i].second.type() == whole.type() &&
                        parts[s][i].second.shape() == part_shape(whole.shape(), shard);
      if (!fits)
        throw error(error_kind::run,
                    fmt::format("{}: servers {} and {} answered with parts of different states; ask again once all "
                                "trainers have made their optimizers",
                                module.description("state_dict"), module.server(), module.server(s)));
      for_each_row(whole, parts[s][i].second, shard, [](std::span<std::byte> to, std::span<const std::byte> from) {
        std::ranges::copy(from, to.begin());
      });
    }
  }
  return joined;
}

std::vector<named_tensors> cut_state(const reference& module, const named_tensors& state) {
  if (module.shards() == 1) return {state};
  const shape table = table_shape(module);
  const bool by_columns = table_of(module.what().details).split == nn::table_split::columns;
  std::vector<named_tensors> parts(module.shards());
  for (const auto& [name, whole] : state) {
    const bool is_matrix = whole.owner() != nullptr && whole.type() != dtype::i64 && whole.shape().dimensions() == 2;
    // An optimizer may have one number for each row.
    const shape expected = !is_matrix || by_columns || name == "weight" ? table : table.with_last(whole.shape()[1]);
    if (is_matrix && whole.shape() != expected)
      throw error(error_kind::input,
                  fmt::format("{}: entry '{}' is {} of {}, expected {}", module.description("load_state_dict"),
                              printable(name), to_string(whole.shape()), name_of(whole.type()), to_string(expected)));
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const model::shard_of shard = shard_of_table(module, s);
      const tensor part = is_matrix ? tensor(part_shape(whole.shape(), shard), whole.type()) : whole;
      if (is_matrix)
        for_each_row(whole, part, shard, [](std::span<const std::byte> from, std::span<std::byte> to) {
          std::ranges::copy(from, to.begin());
        });
      parts[s].emplace_back(name, part);
    }
  }
  return parts;
}

}  // namespace troupe::runtime
