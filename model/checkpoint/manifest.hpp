// The manifest of a checkpoint: JSON with the saved state, the name, length and digest of every file, and a digest of
// the JSON itself. A checkpoint exists if and only if its manifest does.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "model/metrics.hpp"
#include "model/safetensors_writer.hpp"
#include "model/table_split.hpp"

namespace troupe::model {

/// Version 3 adds `split`, version 4 `arithmetic`, version 5 `own` figures; manifests without these are written in an
/// older version.
constexpr std::uint64_t manifest_version = 5;
/// The oldest readable version. Version 1 has no `test_loss` and no `rmse`.
constexpr std::uint64_t manifest_version_min = 1;
/// Limit of a manifest's bytes: the files of 10,000 shards need about a quarter.
constexpr std::size_t manifest_bytes_max = std::size_t{8} << 20;

/// A rank's sums in the current epoch.
struct rank_position {
  double loss_sum = 0;
  std::uint64_t samples = 0;

  bool operator==(const rank_position&) const = default;
};

/// The figures of a run so far.
struct run_position {
  std::uint64_t samples = 0;                ///< all trainers, since the run's beginning
  double seconds = 0;                       ///< training loop alone, since the run's beginning
  double epoch_seconds = 0;                 ///< of the current epoch
  std::uint64_t skipped_steps = 0;          ///< because of NaN or Inf
  std::vector<rank_position> ranks;         ///< of the current epoch
  std::optional<epoch_figures> last_epoch;  ///< figures of the last finished epoch

  bool operator==(const run_position&) const = default;
};

/// A tensor of a table: "weight", or a buffer of its optimizer, "state.0" and so on.
struct table_part {
  std::string name;
  dtype type = dtype::f32;
  std::uint64_t columns = 0;  ///< of a row of the whole table

  bool operator==(const table_part&) const = default;
};

/// A table with a shard in each of its files.
struct saved_table {
  std::uint64_t rows = 0;  ///< of the whole table
  std::uint32_t shards = 1;
  std::vector<table_part> parts;
  table_split split = table_split::rows;

  shard_of shard(std::uint32_t index) const { return {index, shards, split}; }

  bool operator==(const saved_table&) const = default;
};

struct saved_file {
  std::string name;
  std::uint64_t length = 0;
  std::string digest;  ///< see `running_digest::hex`

  bool operator==(const saved_file&) const = default;
};

struct checkpoint_manifest {
  /// Completed global steps.
  std::uint64_t step = 0;
  /// The folder with the files, beside the manifest. Set by `checkpoint_store::commit`.
  std::string folder;
  /// The settings of `to_settings` in the current spelling; includes the seed.
  std::vector<setting> settings;
  /// `dataset::digest` of the data.
  std::string data_digest;
  /// `arithmetic_here` of the processors that computed; empty: unknown, or nothing was computed.
  std::vector<setting> arithmetic;
  run_position position;
  std::vector<saved_table> tables;
  /// The tensors of the dense file.
  std::vector<tensor_declaration> dense;
  /// The dense file, then each table's shards in order. A checkpoint of step 0 has no files: resuming from it starts
  /// the run.
  std::vector<saved_file> files;

  bool operator==(const checkpoint_manifest&) const = default;
};

/// Returns whether a tensor's name is valid in files, exports and on terminals: letters, digits, dots, dashes and
/// underscores, at least one and at most `plain_name_max`.
bool is_plain_name(std::string_view name);
constexpr std::size_t plain_name_max = 200;

/// Returns whether a tensor is optimizer state: "state.0" of a table, "top.0.weight.state.0".
bool is_optimizer_state(std::string_view tensor_name);

/// Returns whether a dense tensor of a program's checkpoint is a trainer's position ("rank0.loops", "rank1.steps") or
/// state kept by its trainer function ("rank0.kept.losses.sum"), and so not a replica's weight.
bool is_trainer_position(std::string_view tensor_name);

/// Returns the names of `files`, in order, for the manifest's tables and dense tensors.
std::vector<std::string> file_names(const checkpoint_manifest& manifest);

/// Returns why a manifest is inconsistent (names, sizes, the list of files); null if it is consistent.
std::optional<std::string> find_contradiction(const checkpoint_manifest& manifest);

/// Returns the text of a manifest. Requires: it is consistent.
std::string to_text(const checkpoint_manifest& manifest);

struct manifest_fault {
  /// True: the bytes have changed; false: the text is intact but has another version.
  bool torn = true;
  std::string message;
};

/// Parses only texts exactly as `to_text` writes them: it detects any changed byte. Its messages do not name the file.
/// Memory use is proportional to the text.
tl::expected<checkpoint_manifest, manifest_fault> parse_manifest(std::string_view text);

}  // namespace troupe::model
