// The manifest of a checkpoint: JSON that says what was saved, names every file with its length and digest, and ends
// with a digest of its own text. A checkpoint exists if and only if its manifest does.

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

namespace troupe::model {

constexpr std::uint64_t manifest_version = 2;
/// What can be read. Version 1 has no `test_loss` and no `rmse`.
constexpr std::uint64_t manifest_version_min = 1;
/// Most bytes of a manifest: files of 10,000 shards take about a quarter.
constexpr std::size_t manifest_bytes_max = std::size_t{8} << 20;

/// What one trainer has gathered in the epoch under way.
struct rank_position {
  double loss_sum = 0;
  std::uint64_t samples = 0;

  bool operator==(const rank_position&) const = default;
};

/// Where a run stands besides its step: what it would report if it went on.
struct run_position {
  std::uint64_t samples = 0;                ///< all trainers, since the run's beginning
  double seconds = 0;                       ///< training loop alone, since the run's beginning
  double epoch_seconds = 0;                 ///< of the epoch under way
  std::uint64_t skipped_steps = 0;          ///< because of NaN or Inf
  std::vector<rank_position> ranks;         ///< of the epoch under way
  std::optional<epoch_figures> last_epoch;  ///< figures of the last finished one

  bool operator==(const run_position&) const = default;
};

/// One tensor of a table, cut by rows: "weight", or a buffer of its optimizer, "state.0" and so on.
struct table_part {
  std::string name;
  tensor_type type = tensor_type::f32;
  std::uint64_t columns = 0;  ///< of a row

  bool operator==(const table_part&) const = default;
};

/// A table; its row r lies on shard r % shards as that file's row r / shards.
struct saved_table {
  std::uint64_t rows = 0;  ///< of the whole table
  std::uint32_t shards = 1;
  std::vector<table_part> parts;

  bool operator==(const saved_table&) const = default;
};

struct saved_file {
  std::string name;
  std::uint64_t length = 0;
  std::string digest;  ///< see `file_digest`

  bool operator==(const saved_file&) const = default;
};

struct checkpoint_manifest {
  /// Global steps done.
  std::uint64_t step = 0;
  /// The folder with the files, beside the manifest. Set by `checkpoint_store::commit`.
  std::string folder;
  /// As `to_settings` gives them, those that were saved under older spellings too; the seed is among them.
  std::vector<setting> settings;
  /// `dataset::digest` of the data.
  std::string data_digest;
  run_position position;
  std::vector<saved_table> tables;
  /// The tensors of the dense file.
  std::vector<tensor_declaration> dense;
  /// The dense file, then each table's shards in order. None at all in a checkpoint of step 0: going on from it is
  /// starting anew.
  std::vector<saved_file> files;

  bool operator==(const checkpoint_manifest&) const = default;
};

/// True for the optimizer's numbers among a checkpoint's tensors: "state.0" of a table, "top.0.weight.state.0".
bool is_optimizer_state(std::string_view tensor_name);

/// The names that `files` must have, in order, for the tables and dense tensors given.
std::vector<std::string> file_names(const checkpoint_manifest& manifest);

/// Why a manifest does not hold together, if so: names, sizes and the list of files.
std::optional<std::string> find_contradiction(const checkpoint_manifest& manifest);

/// The text of a manifest that holds together.
std::string to_text(const checkpoint_manifest& manifest);

struct manifest_fault {
  /// The bytes are not those that were written; otherwise the text is sound but of another version.
  bool torn = true;
  std::string message;
};

/// Reads what `to_text` has written, and nothing else: any byte that differs is found. The message says what is wrong
/// without naming the file. Takes memory in proportion to the text.
tl::expected<checkpoint_manifest, manifest_fault> parse_manifest(std::string_view text);

}  // namespace troupe::model
