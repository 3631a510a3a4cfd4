// Writes the tensors of a checkpoint, and reads them with any sharding.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "model/checkpoint/manifest.hpp"
#include "model/table_split.hpp"

namespace troupe::model {

/// A committed checkpoint.
struct checkpoint {
  /// The folder of the manifest.
  std::string directory;
  checkpoint_manifest manifest;

  std::string path_of(const std::string& file) const { return directory + "/" + manifest.folder + "/" + file; }
};

/// Writes a shard of table number `table` into `folder` (of `checkpoint_store::begin`): "weight", then the optimizer's
/// buffers, each [rows of the shard, columns of the shard]. Does not copy the bytes. Thread: any, also several for one
/// folder. Faults: kind run, with the file's name.
result<saved_file> write_table(const std::string& folder, std::size_t table, shard_of shard,
                               std::span<const tensor_view> parts);

/// The same for the dense part: named tensors, e.g. "top.0.weight" [out, in]. Optimizer state is named after its
/// tensor, with ".state.0" and so on appended.
result<saved_file> write_dense(const std::string& folder, std::span<const tensor_view> tensors);

/// Reads a part ("weight", "state.0") of table number `table` into `out` [rows of `shard`, columns of `shard`]. The
/// saved table may be split in any way. Uses a buffer of a few MiB. Thread: any. Faults name file or table:
/// unknown table or part, `out` of another size, files that disagree with the manifest.
result<void> read_table(const checkpoint& saved, std::size_t table, std::string_view part, shard_of shard,
                        std::span<std::byte> out);

/// Reads the bytes of a dense tensor into `out`.
result<void> read_dense(const checkpoint& saved, std::string_view name, std::span<std::byte> out);

/// Returns the tensors in the file of a table's shard.
std::vector<tensor_declaration> tensors_of(const saved_table& table, shard_of shard);

}  // namespace troupe::model
