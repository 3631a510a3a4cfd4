#include "model/checkpoint/names.hpp"

#include <fmt/format.h>

#include "base/number.hpp"

namespace troupe::model {

namespace {

constexpr std::string_view folder_prefix = "step-";
constexpr std::string_view table_file_prefix = "table-";

/// Removes the number at the start of `text`. The caller checks leading zeros.
template <class T>
std::optional<T> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return parse_number<T>(digits);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Returns the number after "step-", if `make` returns exactly `name` for it.
template <class Make>
std::optional<std::uint64_t> step_of(std::string_view name, Make make) {
  std::string_view rest = name;
  if (!take(rest, folder_prefix)) return std::nullopt;
  const auto step = take_number<std::uint64_t>(rest);
  return step && make(*step) == name ? step : std::nullopt;
}

}  // namespace

std::string manifest_name(std::uint64_t step) { return fmt::format("{}{:012}.json", folder_prefix, step); }

std::string uncommitted_manifest_name(std::uint64_t step) { return manifest_name(step) + ".tmp"; }

std::string files_folder_name(std::uint64_t step, std::uint32_t token) {
  return fmt::format("{}{:012}-{:08x}", folder_prefix, step, token);
}

std::string table_file_name(std::size_t table, std::uint32_t shard, std::uint32_t shards) {
  return fmt::format("{}{}.shard-{}-of-{}.safetensors", table_file_prefix, table, shard, shards);
}

std::optional<std::uint64_t> step_of_manifest(std::string_view name) { return step_of(name, manifest_name); }

std::optional<std::uint64_t> step_of_uncommitted_manifest(std::string_view name) {
  return step_of(name, uncommitted_manifest_name);
}

std::optional<std::uint64_t> step_of_files_folder(std::string_view name) {
  constexpr std::size_t token_digits = 8;
  if (name.size() < token_digits) return std::nullopt;
  const auto token = parse_number<std::uint32_t>(name.substr(name.size() - token_digits), 16);
  if (!token) return std::nullopt;
  return step_of(name, [token](std::uint64_t step) { return files_folder_name(step, *token); });
}

bool is_checkpoint_file(std::string_view name) {
  if (name == dense_file_name) return true;
  std::string_view rest = name;
  if (!take(rest, table_file_prefix)) return false;
  const auto table = take_number<std::size_t>(rest);
  if (!table || !take(rest, ".shard-")) return false;
  const auto shard = take_number<std::uint32_t>(rest);
  if (!shard || !take(rest, "-of-")) return false;
  const auto shards = take_number<std::uint32_t>(rest);
  return shards && table_file_name(*table, *shard, *shards) == name;
}

}  // namespace troupe::model
