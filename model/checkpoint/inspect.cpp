#include "model/checkpoint/inspect.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/digest.hpp"
#include "base/input_files.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/checkpoint/names.hpp"
#include "model/input_file.hpp"
#include "model/safetensors.hpp"

namespace troupe::model {

namespace {

/// A fault of one file of a checkpoint.
struct file_fault {
  bool torn = true;
  std::string message;
};

/// Converts a read fault: after a system error the bytes may be intact.
file_fault reading_fault(const fault& why) { return {why.kind == fault_kind::input, why.message}; }

/// Null: no fault.
using finding = std::optional<file_fault>;

/// Reads the text of a manifest.
tl::expected<std::string, file_fault> read_text(const std::string& path) {
  const auto file = input_file::open(path, "the manifest of a checkpoint");
  if (!file) return tl::unexpected<file_fault>(file_fault{false, file.error().message});
  const std::string name = std::filesystem::path(path).filename();
  if (file->length() > manifest_bytes_max)
    return tl::unexpected<file_fault>(
        file_fault{true, fmt::format("{}: {} bytes: must be at most {}", name, file->length(), manifest_bytes_max)});
  std::string text(file->length(), '\0');
  if (const auto read = file->read(0, std::as_writable_bytes(std::span(text))); !read)
    return tl::unexpected<file_fault>(reading_fault(read.error()));
  return text;
}

finding check_length(const checkpoint& saved, const saved_file& file) {
  const std::string path = saved.path_of(file.name);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return file_fault{true, file.name + ": is missing"};
    return file_fault{false, fmt::format("{}: {}", printable_path(path), std::strerror(errno))};
  }
  if (!S_ISREG(status.st_mode)) return file_fault{true, file.name + ": is not a regular file"};
  const auto length = static_cast<std::uint64_t>(status.st_size);
  if (length < file.length)
    return file_fault{true, fmt::format("{}: {} bytes missing", file.name, file.length - length)};
  if (length > file.length)
    return file_fault{true, fmt::format("{}: {} bytes too many", file.name, length - file.length)};
  return std::nullopt;
}

finding check_digest(const checkpoint& saved, const saved_file& expected) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  const auto file = input_file::open(saved.path_of(expected.name), "a file of a checkpoint");
  if (!file) return file_fault{false, file.error().message};
  running_digest digest;
  std::vector<std::byte> buffer(std::min(piece, expected.length));
  for (std::uint64_t begin = 0; begin < expected.length; begin += piece) {
    const auto bytes = std::span(buffer).first(std::min(piece, expected.length - begin));
    if (const auto read = file->read(begin, bytes); !read) return reading_fault(read.error());
    digest.add(bytes);
  }
  if (const std::string found = digest.hex(); found != expected.digest)
    return file_fault{
        true, fmt::format("{}: its bytes have changed (digest {}: must be {})", expected.name, found, expected.digest)};
  return std::nullopt;
}

finding check_header(const checkpoint& saved, const saved_file& expected, std::vector<tensor_declaration> tensors) {
  auto opened = input_file::open(saved.path_of(expected.name), "a file of a checkpoint");
  if (!opened) return file_fault{false, opened.error().message};
  const auto file = safetensors_file::open(std::move(*opened));
  if (!file) return reading_fault(file.error());
  std::ranges::sort(tensors, {}, &tensor_declaration::name);
  std::vector<tensor_declaration> found;
  for (const auto& [name, entry] : file->header().tensors)
    if (entry.type) found.push_back({name, *entry.type, entry.shape});
  if (found == tensors) return std::nullopt;
  return file_fault{true, expected.name + ": its tensors are not those of the manifest"};
}

using file_check = std::function<finding(const saved_file&, std::vector<tensor_declaration>)>;

/// Calls `check` for every file of the checkpoint with its expected tensors, and collects the faults.
damage check_files(const checkpoint_manifest& manifest, const file_check& check) {
  damage all;
  const auto add = [&all](finding found) {
    if (!found) return;
    // Torn has precedence over unreadable.
    if (all.state != checkpoint_state::torn)
      all.state = found->torn ? checkpoint_state::torn : checkpoint_state::unreadable;
    all.faults.push_back(std::move(found->message));
  };
  auto file = manifest.files.begin();
  if (!manifest.dense.empty()) add(check(*file++, manifest.dense));
  for (const saved_table& table : manifest.tables)
    for (shard_of shard = table.shard(0); shard.index < shard.count; ++shard.index)
      add(check(*file++, tensors_of(table, shard)));
  return all;
}

/// Reads the manifest of `step` into `what`.
damage check_manifest(const std::string& directory, std::uint64_t step, std::optional<checkpoint>& what) {
  const std::string name = manifest_name(step);
  const auto bad = [](bool torn, std::string message) {
    return damage{torn ? checkpoint_state::torn : checkpoint_state::unreadable, {std::move(message)}};
  };
  const auto text = read_text(directory + "/" + name);
  if (!text) return bad(text.error().torn, text.error().message);
  auto manifest = parse_manifest(*text);
  if (!manifest) return bad(manifest.error().torn, fmt::format("{}: {}", name, manifest.error().message));
  if (manifest->step != step) return bad(true, fmt::format("{}: is that of step {}", name, manifest->step));
  what = checkpoint{directory, std::move(*manifest)};
  return {};
}

}  // namespace

const char* state_name(checkpoint_state state) {
  return state == checkpoint_state::whole ? "whole" : state == checkpoint_state::torn ? "torn" : "unreadable";
}

result<std::vector<std::uint64_t>> checkpoint_steps(const std::string& directory) {
  std::vector<std::uint64_t> steps;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (const auto step = step_of_manifest(entry->path().filename().native())) steps.push_back(*step);
  if (failure)
    return bad_input("{}: {}: must be a folder with checkpoints, as --save writes it", printable_path(directory),
                     failure.message());
  std::ranges::sort(steps, std::greater());
  return steps;
}

damage find_damage(const checkpoint& saved, inspection_depth depth) {
  const auto& manifest = saved.manifest;
  // Each depth is reached only if the previous one found no fault.
  damage found = check_files(manifest, [&](const saved_file& file, auto) { return check_length(saved, file); });
  if (found.faults.empty() && depth == inspection_depth::bytes)
    found = check_files(manifest, [&](const saved_file& file, auto) { return check_digest(saved, file); });
  if (found.faults.empty() && depth != inspection_depth::lengths)
    found = check_files(
        manifest, [&](const saved_file& file, auto tensors) { return check_header(saved, file, std::move(tensors)); });
  return found;
}

std::optional<inspection> inspect_checkpoint(const std::string& directory, std::uint64_t step, inspection_depth depth) {
  inspection seen;
  seen.step = step;
  seen.found = check_manifest(directory, step, seen.what);
  if (seen.what) seen.found = find_damage(*seen.what, depth);
  struct stat status {};
  const std::string manifest = directory + "/" + manifest_name(step);
  const bool gone = ::lstat(manifest.c_str(), &status) != 0 && errno == ENOENT;
  if (seen.found.state != checkpoint_state::whole && gone) return std::nullopt;
  return seen;
}

void remember_files(const checkpoint& saved) {
  constexpr const char* what = "a file of the checkpoint that is read";
  remember_input(saved.directory + "/" + manifest_name(saved.manifest.step), what);
  for (const saved_file& file : saved.manifest.files) remember_input(saved.path_of(file.name), what);
}

fault no_checkpoint_in(const std::string& directory) {
  struct stat status {};
  const bool begun = ::stat((directory + "/" + checkpoint_lock_name).c_str(), &status) == 0;
  return {fault_kind::input,
          fmt::format("{}: holds no checkpoint (no file step-*.json); {}", printable_path(directory),
                      begun ? "a run that was to save there ended before it began: start it anew with --save"
                            : "is it the folder that --save was given?")};
}

}  // namespace troupe::model
