// Names of checkpoint files and folders. Files with other names are neither read nor removed.
//
//   DIR/step-000000000040.json             the manifest of the checkpoint after step 40
//   DIR/step-000000000040.json.tmp         an uncommitted manifest
//   DIR/step-000000000040-1a2b3c4d/        a folder with its files; the hexadecimal digits are random for each save
//   DIR/.lock                              locked by the run that saves here

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::model {

constexpr const char* checkpoint_lock_name = ".lock";
constexpr const char* dense_file_name = "dense.safetensors";

std::string manifest_name(std::uint64_t step);
std::string uncommitted_manifest_name(std::uint64_t step);
std::string files_folder_name(std::uint64_t step, std::uint32_t token);

/// Returns the file name of a shard of a table: "table-0.shard-1-of-2.safetensors".
std::string table_file_name(std::size_t table, std::uint32_t shard, std::uint32_t shards);

/// Return the step in a name of that kind; null for other names.
std::optional<std::uint64_t> step_of_manifest(std::string_view name);
std::optional<std::uint64_t> step_of_uncommitted_manifest(std::string_view name);
std::optional<std::uint64_t> step_of_files_folder(std::string_view name);

/// Returns whether a name is that of a checkpoint's tensor file.
bool is_checkpoint_file(std::string_view name);

}  // namespace troupe::model
