// Finds and reads the files of a recording.

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/result.hpp"
#include "trace/record/attempts.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

result<std::vector<std::filesystem::path>> find_trace_files(const sources& from) {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& path : from.paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
      if (!std::filesystem::exists(path, failed))
        return bad_input("{}: there is no such file or folder", path.string());
      if (!std::filesystem::is_regular_file(path, failed))
        return bad_input("{}: is neither a file nor a folder", path.string());
      found.push_back(path);
      continue;
    }
    const std::size_t before = found.size();
    for (std::filesystem::recursive_directory_iterator i(path, failed), end; !failed && i != end; i.increment(failed))
      if (i->is_regular_file(failed) && is_trace_file(i->path())) found.push_back(i->path());
    if (failed) return bad_input("{}: cannot be read: {}", path.string(), failed.message());
    if (found.size() == before) return bad_input("{}: holds no traces (*.ring, *.log)", path.string());
  }
  if (from.only_rings)
    std::erase_if(found, [](std::filesystem::path path) {
      std::error_code failed;
      return path.extension() == ".log" && std::filesystem::exists(path.replace_extension(".ring"), failed);
    });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

namespace {

/// Reads the files of `run`; 0: all. If `heads`, keeps only their heads, metadata and boards.
result<std::vector<trace_file>> read_files(const std::vector<std::filesystem::path>& paths, const sources& from,
                                           std::uint64_t run, bool heads) {
  std::vector<trace_file> files;
  memory_budget together(from.memory_bytes_max);
  for (const std::filesystem::path& path : paths) {
    memory_budget alone(from.memory_bytes_max);
    auto read = read_trace_file(path, heads ? alone : together);
    // A live run may remove its own files.
    std::error_code unknown;
    const bool is_named = std::ranges::find(from.paths, path) != from.paths.end();
    if (!read && !is_named && !std::filesystem::exists(path, unknown)) continue;
    TROUPE_TRY(file, std::move(read));
    if (run != 0 && file.run != run) continue;
    if (heads) {
      file.chunks.clear();
      file.contents = {};
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

result<recording> read_recording(const sources& from) {
  TROUPE_TRY(paths, find_trace_files(from));
  auto files = read_files(paths, from, from.run, false);
  if (files && !files->empty()) return make_recording(std::move(*files), from);
  // Together the files need too much memory, or none is of the run: the heads show which files to read.
  TROUPE_TRY(heads, read_files(paths, from, 0, true));
  const auto attempts = attempts_in(heads);
  TROUPE_TRY(chosen, choose_run(heads, attempts, from));
  std::erase_if(paths, [&](const std::filesystem::path& path) {
    return std::ranges::find(heads, path, &trace_file::path)->run != chosen;
  });
  TROUPE_TRY(some, read_files(paths, from, chosen, false));
  TROUPE_TRY(made, make_recording(std::move(some)));
  made.attempts = attempts;
  return made;
}

}  // namespace troupe::trace
