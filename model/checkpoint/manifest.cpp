#include "model/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/checkpoint/names.hpp"

namespace troupe::model {

namespace {

constexpr std::string_view table_tensor_prefix = "table.";

std::optional<std::string> wrong_tensor(const std::string& name, dtype type, const std::vector<std::uint64_t>& shape,
                                        std::set<std::string_view>& seen) {
  if (!is_plain_name(name))
    return fmt::format("{}: must be letters, digits, dots, dashes and underscores, at most {}", printable(name),
                       plain_name_max);
  if (!seen.insert(name).second) return fmt::format("{} is there twice", name);
  if (!tensor_bytes(type, shape))
    return fmt::format("{} {}: its bytes must be less than 2^64", name, shape_text(shape));
  return std::nullopt;
}

std::optional<std::string> wrong_table(const saved_table& table) {
  if (table.shards == 0) return "0 shards: must be at least 1";
  std::set<std::string_view> seen;
  for (const table_part& part : table.parts) {
    if (part.columns == 0) return fmt::format("{}: 0 columns: must be at least 1", printable(part.name));
    if (table.split == table_split::columns && table.shards > part.columns)
      return fmt::format("{}: {} shards of {} columns: must be at most as many", printable(part.name), table.shards,
                         part.columns);
    if (auto wrong = wrong_tensor(part.name, part.type, {table.rows, part.columns}, seen)) return wrong;
  }
  return std::nullopt;
}

std::optional<std::string> wrong_files(const checkpoint_manifest& manifest) {
  // Counted before the names are made, since the number of shards may be huge.
  std::uint64_t count = manifest.dense.empty() ? 0 : 1;
  for (const saved_table& table : manifest.tables) count += table.shards;
  if (count != manifest.files.size()) return fmt::format("{} files: must be {}", manifest.files.size(), count);
  const std::vector<std::string> names = file_names(manifest);
  for (std::size_t at = 0; at < names.size(); ++at)
    if (manifest.files[at].name != names[at])
      return fmt::format("file {}: must be {}", printable(manifest.files[at].name), names[at]);
  return std::nullopt;
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= plain_name_max && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

bool is_optimizer_state(std::string_view tensor_name) {
  const auto last = tensor_name.rfind('.');
  if (last == std::string_view::npos || !parse_number<std::uint32_t>(tensor_name.substr(last + 1))) return false;
  const std::string_view before = tensor_name.substr(0, last);
  return before == "state" || before.ends_with(".state");
}

bool is_trainer_position(std::string_view tensor_name) {
  constexpr std::string_view rank = "rank";
  if (!tensor_name.starts_with(rank)) return false;
  const auto dot = tensor_name.find('.');
  if (dot == std::string_view::npos || !parse_number<std::uint32_t>(tensor_name.substr(rank.size(), dot - rank.size())))
    return false;
  constexpr std::string_view numbers[] = {"steps", "contexts", "loops", "server_steps", "skipped"};
  const std::string_view what = tensor_name.substr(dot + 1);
  return what.starts_with("kept.") || std::ranges::find(numbers, what) != std::end(numbers);
}

std::vector<std::string> file_names(const checkpoint_manifest& manifest) {
  std::vector<std::string> names;
  if (!manifest.dense.empty()) names.emplace_back(dense_file_name);
  for (std::size_t table = 0; table < manifest.tables.size(); ++table) {
    const std::uint32_t shards = manifest.tables[table].shards;
    for (std::uint32_t shard = 0; shard < shards; ++shard) names.push_back(table_file_name(table, shard, shards));
  }
  return names;
}

std::optional<std::string> find_contradiction(const checkpoint_manifest& manifest) {
  if (step_of_files_folder(manifest.folder) != manifest.step)
    return fmt::format("folder {}: must be one of step {}", printable(manifest.folder), manifest.step);
  if (manifest.dense.empty() && (manifest.step > 0 || !manifest.tables.empty()))
    return fmt::format("no dense tensors at step {}: only a checkpoint of step 0 may be without any", manifest.step);
  for (std::size_t table = 0; table < manifest.tables.size(); ++table)
    if (auto wrong = wrong_table(manifest.tables[table])) return fmt::format("table {}: {}", table, *wrong);
  std::set<std::string_view> seen;
  for (const tensor_declaration& tensor : manifest.dense) {
    if (tensor.name.starts_with(table_tensor_prefix))
      return fmt::format("dense tensor {}: must not begin with '{}'", printable(tensor.name), table_tensor_prefix);
    if (auto wrong = wrong_tensor(tensor.name, tensor.type, tensor.shape, seen))
      return fmt::format("dense tensor {}", *wrong);
  }
  return wrong_files(manifest);
}

}  // namespace troupe::model
