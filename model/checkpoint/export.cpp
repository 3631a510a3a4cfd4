#include "model/checkpoint/export.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/input_files.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/checkpoint/inspect.hpp"
#include "model/checkpoint/names.hpp"
#include "model/safetensors.hpp"

namespace troupe::model {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t copy_bytes = std::uint64_t{8} << 20;

/// The location of a whole tensor: one file, or several that share its rows or its columns.
struct source {
  tensor_declaration what;
  /// The tensor's name in the files.
  std::string name;
  std::vector<std::string> files;
  table_split split = table_split::rows;
};

std::vector<source> sources_of(const checkpoint& saved, bool weights_only) {
  std::vector<source> all;
  for (const tensor_declaration& tensor : saved.manifest.dense)
    all.push_back({tensor, tensor.name, {saved.path_of(dense_file_name)}, {}});
  for (std::size_t table = 0; table < saved.manifest.tables.size(); ++table) {
    const saved_table& whole = saved.manifest.tables[table];
    std::vector<std::string> files;
    for (std::uint32_t shard = 0; shard < whole.shards; ++shard)
      files.push_back(saved.path_of(table_file_name(table, shard, whole.shards)));
    for (const table_part& part : whole.parts) {
      const std::string name = fmt::format("table.{}.{}", table, part.name);
      all.push_back({{name, part.type, {whole.rows, part.columns}}, part.name, files, whole.split});
    }
  }
  if (weights_only)
    std::erase_if(
        all, [](const source& one) { return is_optimizer_state(one.what.name) || is_trainer_position(one.what.name); });
  return all;
}

/// Reads bytes [begin, begin + to.size()) of a tensor in one of the files.
result<void> read_piece(const std::string& path, const std::string& name, std::uint64_t begin,
                        std::span<std::byte> to) {
  TROUPE_TRY(file, safetensors_file::open(path));
  const tensor_entry* entry = file.find(name);
  if (entry == nullptr || entry->end - entry->begin < begin + to.size())
    return bad_input("{}: {} is not there as the manifest has it", printable_path(path), name);
  return file.read_range(*entry, begin, to);
}

/// Appends a tensor that is in one file.
result<void> append_whole(safetensors_writer& to, const source& from, std::uint64_t length) {
  std::vector<std::byte> buffer(std::min(copy_bytes, length));
  for (std::uint64_t begin = 0; begin < length; begin += buffer.size()) {
    const auto bytes = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), length - begin));
    if (auto read = read_piece(from.files.front(), from.name, begin, bytes); !read) return read;
    if (auto done = to.append(bytes); !done) return done;
  }
  return {};
}

/// Appends a tensor whose columns are spread over several files, some rows at a time.
result<void> append_columns(safetensors_writer& to, const source& from) {
  const std::uint64_t rows = from.what.shape.front();
  const std::uint64_t columns = from.what.shape.back();
  const std::uint64_t number = *tensor_bytes(from.what.type, {1});
  const auto count = static_cast<std::uint32_t>(from.files.size());
  const std::uint64_t block = std::clamp<std::uint64_t>(copy_bytes / (columns * number), 1, rows);
  std::vector<std::byte> piece(block * columns * number);
  std::vector<std::byte> whole(piece.size());
  for (std::uint64_t first = 0; first < rows; first += block) {
    const std::uint64_t here = std::min(block, rows - first);
    for (std::uint32_t shard = 0; shard < count; ++shard) {
      const column_range range = columns_on(columns, {shard, count, table_split::columns});
      const std::uint64_t width = range.count * number;
      const auto bytes = std::span(piece).first(here * width);
      if (auto read = read_piece(from.files[shard], from.name, first * width, bytes); !read) return read;
      for (std::uint64_t row = 0; row < here; ++row)
        std::memcpy(whole.data() + (row * columns + range.first) * number, bytes.data() + row * width, width);
    }
    if (auto done = to.append(std::span(whole).first(here * columns * number)); !done) return done;
  }
  return {};
}

/// Appends a tensor whose rows alternate between several files. Opens the files again for every block, because there
/// may be more of them than a process may have open.
result<void> append_rows(safetensors_writer& to, const source& from) {
  const std::uint64_t length = *tensor_bytes(from.what.type, from.what.shape);
  const std::uint64_t shards = from.files.size();
  if (length == 0) return {};
  if (shards == 1) return append_whole(to, from, length);
  if (from.split == table_split::columns) return append_columns(to, from);
  const std::uint64_t rows = from.what.shape.front();
  const std::uint64_t row_bytes = length / rows;
  // The rows of each file that are copied at a time.
  const std::uint64_t block = std::clamp<std::uint64_t>(copy_bytes / shards / row_bytes, 1, rows);
  std::vector<std::byte> piece(block * row_bytes);
  std::vector<std::byte> whole(std::min(block * shards, rows) * row_bytes);
  for (std::uint64_t first = 0; first * shards < rows; first += block) {
    const std::uint64_t whole_rows = std::min(block * shards, rows - first * shards);
    for (std::uint64_t shard = 0; shard < std::min(shards, whole_rows); ++shard) {
      const std::uint64_t count = (whole_rows - shard + shards - 1) / shards;
      const auto bytes = std::span(piece).first(count * row_bytes);
      if (auto read = read_piece(from.files[shard], from.name, first * row_bytes, bytes); !read) return read;
      for (std::uint64_t row = 0; row < count; ++row)
        std::memcpy(whole.data() + (row * shards + shard) * row_bytes, bytes.data() + row * row_bytes, row_bytes);
    }
    if (auto done = to.append(std::span(whole).first(whole_rows * row_bytes)); !done) return done;
  }
  return {};
}

tensor_metadata metadata_of(const checkpoint& saved) {
  tensor_metadata metadata{{"step", std::to_string(saved.manifest.step)}};
  for (const auto& [name, value] : saved.manifest.settings) metadata["job." + name] = value;
  return metadata;
}

result<written_file> write_all(const checkpoint& saved, const std::string& path, bool weights_only) {
  std::map<std::string, source> sources;
  std::vector<tensor_declaration> tensors;
  for (source& one : sources_of(saved, weights_only)) {
    tensors.push_back(one.what);
    sources.emplace(one.what.name, std::move(one));
  }
  TROUPE_TRY(writer, safetensors_writer::create(path, std::move(tensors), metadata_of(saved)));
  for (const tensor_declaration& next : writer.tensors()) TROUPE_DO(append_rows(writer, sources.at(next.name)));
  return writer.finish();
}

/// Returns whether `path` is a file of the checkpoints in `directory`.
bool is_part_of_checkpoint(const fs::path& path, const std::string& directory) {
  std::error_code none;
  const fs::path folder = path.parent_path();
  if (fs::equivalent(folder, directory, none)) return step_of_manifest(path.filename().native()).has_value();
  return fs::equivalent(folder.parent_path(), directory, none) &&
         step_of_files_folder(folder.filename().native()).has_value() && is_checkpoint_file(path.filename().native());
}

/// Returns why `path` cannot be the name of a new file; null if it can.
std::optional<std::string> wrong_target(const std::string& path, bool overwrite) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return "is there and not a regular file; name another file";
    if (!overwrite) return "is there already; replace it by --force, or name another file";
    return std::nullopt;
  }
  if (errno != ENOENT) return std::strerror(errno);
  const fs::path folder = fs::path(path).parent_path();
  if (!fs::path(path).has_filename()) return "is not the name of a file";
  if (!folder.empty() && (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)))
    return fmt::format("there is no folder {}", printable_path(folder.native()));
  return std::nullopt;
}

}  // namespace

result<written_file> export_checkpoint(const checkpoint& saved, const std::string& path, export_options options) {
  if (saved.manifest.files.empty())
    return bad_input("checkpoint step {} in {} marks the beginning of a run: there are no tensors in it",
                     saved.manifest.step, printable_path(saved.directory));
  if (auto wrong = wrong_target(path, options.overwrite)) return bad_input("{}: {}", printable_path(path), *wrong);
  // If `path` is a link, its target is replaced, not the link.
  std::error_code no_such_file;
  fs::path target = fs::canonical(path, no_such_file);
  if (no_such_file) target = fs::absolute(path);
  if (is_part_of_checkpoint(target, saved.directory))
    return bad_input("{}: is what a checkpoint's own file is called; name another file", printable_path(path));
  remember_files(saved);
  const std::string partial = target.native() + ".part";
  if (!options.overwrite && fs::exists(fs::symlink_status(partial, no_such_file)))
    return bad_input("{}: is there, and the export is first written to it; replace it by --force, or remove it",
                     printable_path(partial));
  for (const std::string& file : {target.native(), partial})
    if (auto allowed = check_output(file); !allowed)
      return bad_input("{}: {}", printable_path(file), allowed.error().message);
  auto written = write_all(saved, partial, options.weights_only);
  if (written && ::rename(partial.c_str(), target.c_str()) != 0)
    written = run_fault("{}: renaming it: {}", printable_path(partial), std::strerror(errno));
  if (!written) ::unlink(partial.c_str());
  return written;
}

}  // namespace troupe::model
