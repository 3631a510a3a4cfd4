#include "model/checkpoint/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/checkpoint/names.hpp"
#include "model/safetensors.hpp"

namespace troupe::model {

namespace {

constexpr std::uint64_t buffer_bytes = std::uint64_t{4} << 20;

result<saved_file> write(const std::string& folder, const std::string& name, std::span<const tensor_view> tensors,
                         const tensor_metadata& metadata) {
  TROUPE_TRY(written, write_safetensors(folder + "/" + name, tensors, metadata));
  return saved_file{name, written.length, std::move(written.digest)};
}

/// Returns the tensor `wanted` of an open file; a fault if it is missing, or of another type or shape.
result<const tensor_entry*> matching(const safetensors_file& file, const tensor_declaration& wanted) {
  const tensor_entry* entry = file.find(wanted.name);
  if (entry != nullptr && entry->type == wanted.type && entry->shape == wanted.shape) return entry;
  return bad_input("{}: tensor {} {} {}: is not there, as the manifest has it", file.name(), wanted.name,
                   name_in_file(wanted.type), shape_text(wanted.shape));
}

/// The common rows of saved shard `from` and new shard `to`: rows first, first + stride, ... of the saved file, and the
/// corresponding rows of the new shard.
struct common_rows {
  bool any = false;
  std::uint64_t first = 0;
  std::uint64_t stride = 1;
};

common_rows rows_in_common(shard_of from, shard_of to) {
  // A shard of columns has all rows.
  if (from.split == table_split::columns) from = {};
  if (to.split == table_split::columns) to = {};
  // Saved row j is the table's row j * from.count + from.index, which is on `to` if it is to.index modulo to.count. The
  // remainders repeat with this period, and each occurs at most once per period.
  common_rows common;
  common.stride = to.count / std::gcd(from.count, to.count);
  for (std::uint64_t j = 0; j < common.stride && !common.any; ++j) {
    if ((j * from.count + from.index) % to.count != to.index) continue;
    common.any = true;
    common.first = j;
  }
  return common;
}

/// The layout of a row in one of two shards: all of its bytes, and the offset of the common columns.
struct row_side {
  shard_of shard;
  std::uint64_t row_bytes = 0;
  std::uint64_t first_byte = 0;
};

struct row_copy {
  const safetensors_file& file;
  const tensor_entry& entry;
  std::uint64_t rows = 0;   ///< of the file
  std::uint64_t bytes = 0;  ///< of the common columns
  row_side from;
  row_side to;
};

/// Returns the copy of the columns that two shards have in common; no bytes without common columns.
row_copy columns_in_common(const safetensors_file& file, const tensor_entry& entry, std::uint64_t rows,
                           const table_part& part, shard_of from, shard_of to) {
  const column_range there = columns_on(part.columns, from);
  const column_range here = columns_on(part.columns, to);
  const std::uint64_t first = std::max(there.first, here.first);
  const std::uint64_t end = std::min(there.first + there.count, here.first + here.count);
  const std::uint64_t number = *tensor_bytes(part.type, {1});
  return {file,
          entry,
          rows,
          end > first ? (end - first) * number : 0,
          {from, there.count * number, (first - there.first) * number},
          {to, here.count * number, (first - here.first) * number}};
}

/// Copies the common rows of two shards, reading the file sequentially.
result<void> copy_rows(const row_copy& what, common_rows common, std::span<std::byte> out) {
  const auto& [shard, row_bytes, first_byte] = what.from;
  const std::uint64_t block = std::min(what.rows, std::max<std::uint64_t>(1, buffer_bytes / row_bytes));
  std::vector<std::byte> buffer(block * row_bytes);
  std::uint64_t next = common.first;
  for (std::uint64_t begin = next; begin < what.rows; begin = next) {
    const std::uint64_t end = std::min(what.rows, begin + block);
    const auto bytes = std::span(buffer).first((end - begin) * row_bytes);
    if (auto read = what.file.read_range(what.entry, begin * row_bytes, bytes); !read) return read;
    for (; next < end; next += common.stride) {
      const std::uint64_t row = local_row(whole_row(next, shard), what.to.shard);
      std::memcpy(out.data() + row * what.to.row_bytes + what.to.first_byte,
                  bytes.data() + (next - begin) * row_bytes + first_byte, what.bytes);
    }
  }
  return {};
}

}  // namespace

std::vector<tensor_declaration> tensors_of(const saved_table& table, shard_of shard) {
  std::vector<tensor_declaration> tensors;
  for (const table_part& part : table.parts)
    tensors.push_back({part.name, part.type, {rows_on(table.rows, shard), columns_on(part.columns, shard).count}});
  return tensors;
}

result<saved_file> write_table(const std::string& folder, std::size_t table, shard_of shard,
                               std::span<const tensor_view> parts) {
  tensor_metadata metadata{{"table", std::to_string(table)},
                           {"shard", std::to_string(shard.index)},
                           {"shards", std::to_string(shard.count)}};
  if (shard.split == table_split::columns) metadata["split"] = "columns";
  return write(folder, table_file_name(table, shard.index, shard.count), parts, metadata);
}

result<saved_file> write_dense(const std::string& folder, std::span<const tensor_view> tensors) {
  return write(folder, dense_file_name, tensors, {});
}

result<void> read_table(const checkpoint& saved, std::size_t table, std::string_view part, shard_of shard,
                        std::span<std::byte> out) {
  const auto& tables = saved.manifest.tables;
  const auto refuse = [&](const std::string& why) {
    return bad_input("checkpoint step {} in {}: table {}{}", saved.manifest.step, printable_path(saved.directory),
                     table, why);
  };
  if (table >= tables.size()) return refuse(fmt::format(": it has {} tables", tables.size()));
  const saved_table& whole = tables[table];
  const auto found = std::ranges::find(whole.parts, part, &table_part::name);
  if (found == whole.parts.end()) return refuse(fmt::format(": it has no {}", printable(part)));
  const auto row_bytes = *tensor_bytes(found->type, {columns_on(found->columns, shard).count});
  if (const std::uint64_t wanted = rows_on(whole.rows, shard) * row_bytes; out.size() != wanted)
    return refuse(fmt::format(", {}: {} bytes wanted of shard {} of {}, and it has {}", part, out.size(), shard.index,
                              shard.count, wanted));
  for (shard_of from = whole.shard(0); from.index < from.count; ++from.index) {
    const common_rows common = rows_in_common(from, shard);
    const std::uint64_t rows = rows_on(whole.rows, from);
    if (!common.any || common.first >= rows) continue;
    TROUPE_TRY(file, safetensors_file::open(saved.path_of(table_file_name(table, from.index, from.count))));
    TROUPE_TRY(entry, matching(file, {found->name, found->type, {rows, columns_on(found->columns, from).count}}));
    const row_copy copy = columns_in_common(file, *entry, rows, *found, from, shard);
    if (copy.bytes == 0) continue;
    if (auto done = copy_rows(copy, common, out); !done) return done;
  }
  return {};
}

result<void> read_dense(const checkpoint& saved, std::string_view name, std::span<std::byte> out) {
  const auto& dense = saved.manifest.dense;
  const auto refuse = [&](const std::string& why) {
    return bad_input("checkpoint step {} in {}: dense tensor {}: {}", saved.manifest.step,
                     printable_path(saved.directory), printable(name), why);
  };
  const auto found = std::ranges::find(dense, name, &tensor_declaration::name);
  if (found == dense.end()) return refuse("is not there");
  if (const auto wanted = *tensor_bytes(found->type, found->shape); out.size() != wanted)
    return refuse(fmt::format("{} bytes wanted, and it has {}", out.size(), wanted));
  TROUPE_TRY(file, safetensors_file::open(saved.path_of(dense_file_name)));
  TROUPE_TRY(entry, matching(file, *found));
  return file.read_range(*entry, 0, out);
}

}  // namespace troupe::model
