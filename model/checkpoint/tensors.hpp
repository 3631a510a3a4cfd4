// The tensors of a checkpoint: written by those who hold them, read back in whatever sharding is wanted now.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/checkpoint/manifest.hpp"

namespace troupe::model {

/// A committed checkpoint.
struct checkpoint {
  /// Where the manifest is.
  std::string directory;
  checkpoint_manifest manifest;

  std::string path_of(const std::string& file) const { return directory + "/" + manifest.folder + "/" + file; }
};

/// Which rows: those whose number modulo `count` is `index`. Whole-table row r is the shard's row r / count.
struct shard_of {
  std::uint32_t index = 0;
  std::uint32_t count = 1;

  bool operator==(const shard_of&) const = default;
};

/// Rows of a table of `rows` rows that lie on `shard`.
std::uint64_t rows_on(std::uint64_t rows, shard_of shard);

/// Writes one shard of table number `table` into `folder` (what `checkpoint_store::begin` gave): "weight" first, then
/// the optimizer's buffers, each [rows of the shard, columns]. Reads the bytes where they are; takes no memory for
/// them. Any thread; several may write into one folder. Faults: kind run, naming the file.
result<saved_file> write_table(const std::string& folder, std::size_t table, shard_of shard,
                               std::span<const tensor_view> parts);

/// The same for the dense part: named tensors, e.g. "top.0.weight" [out, in]. Those of the optimizer are called like
/// the tensor they belong to, with ".state.0" and so on behind.
result<saved_file> write_dense(const std::string& folder, std::span<const tensor_view> tensors);

/// Fills `out` [rows of `shard`, columns] with those rows of a part ("weight", "state.0") of table number `table`,
/// however the table was cut when it was saved. Reads through a buffer of a few MiB. Any thread. Faults name file or
/// table: no such table or part, `out` of another size, files that are not what the manifest says.
result<void> read_table(const checkpoint& saved, std::size_t table, std::string_view part, shard_of shard,
                        std::span<std::byte> out);

/// Fills `out` with the bytes of a dense tensor.
result<void> read_dense(const checkpoint& saved, std::string_view name, std::span<std::byte> out);

/// The tensors that the file of one shard of a table has.
std::vector<tensor_declaration> tensors_of(const saved_table& table, shard_of shard);

}  // namespace troupe::model
