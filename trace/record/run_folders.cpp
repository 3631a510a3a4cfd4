#include "trace/record/run_folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/host.hpp"
#include "base/private_folder.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/file_format.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

namespace {

namespace fs = std::filesystem;

/// YYYYMMDD-HHMMSS-PID.
std::string name_of_run_now() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y%m%d-%H%M%S}-{}", fmt::localtime(now), ::getpid());
}

/// Whether a name has the form of `name_of_run_now`; a further number is that of `private_folder::create`.
bool is_name_of_run(std::string_view name) {
  std::vector<std::size_t> lengths(1);
  for (const char c : name)
    if (c == '-')
      lengths.push_back(0);
    else if (std::isdigit(static_cast<unsigned char>(c)) == 0)
      return false;
    else
      ++lengths.back();
  return (lengths.size() == 3 || lengths.size() == 4) && lengths[0] == 8 && lengths[1] == 6 &&
         std::ranges::find(lengths, 0U) == lengths.end();
}

/// Reads the head and the metadata of a ring's file.
result<trace_file> read_head(const fs::path& ring) {
  std::string head(head_bytes + metadata_bytes, '\0');
  std::ifstream from(ring, std::ios::binary);
  from.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, from.gcount())));
  return parse_trace_file(head, ring);
}

/// When recording began, on a clock that all processes since the start of this host share: unlike the time of day, it
/// does not depend on a time zone, and is never set.
using moment = std::int64_t;

/// Returns when a ring began if its process ran on this host since the host was started, and has ended; else null, also
/// if that is unknown.
std::optional<moment> begin_of_gone_process(const trace_file& ring) {
  const auto says = [&](const char* key, const std::string& value) {
    const auto* found = ring.metadata.if_contains(key);
    return found != nullptr && !value.empty() && *found == boost::json::string(value);
  };
  const auto pid = static_cast<pid_t>(ring.pid);
  const bool is_gone = pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
  if (!is_gone || !says("host", host_name()) || !says("boot", this_boot())) return std::nullopt;
  return ring.begin.monotonic_ns;
}

/// Rings of one run or attempt, which are removed together.
struct left_rings {
  moment newest = 0;
  bool may_go = true;  ///< all processes of these rings have ended
  std::vector<fs::path> rings;

  void add(const fs::path& ring, const result<trace_file>& file) {
    const auto begin = file ? begin_of_gone_process(*file) : std::nullopt;
    may_go = may_go && begin.has_value();
    newest = std::max(newest, begin.value_or(0));
    rings.push_back(ring);
  }
};

/// Returns when the run of the folder `path` began; null unless a run of this user has left it, and no process writes
/// there any more.
std::optional<moment> begin_of_left_over(const fs::path& path) {
  struct stat found {};
  if (!is_name_of_run(path.filename().native()) || ::lstat(path.c_str(), &found) != 0) return std::nullopt;
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid()) return std::nullopt;
  left_rings all;
  std::error_code failed;
  for (fs::directory_iterator i(path, failed), end; !failed && i != end; i.increment(failed)) {
    if (i->path().extension() != ".ring") continue;
    if (!fs::is_regular_file(i->symlink_status(failed))) return std::nullopt;
    all.add(i->path(), read_head(i->path()));
  }
  return all.may_go && !all.rings.empty() && !failed ? std::optional(all.newest) : std::nullopt;
}

/// Other users cannot put anything into `folder`, so what was found to be a folder stays one.
void remove_left_over(const private_folder& folder) {
  constexpr std::size_t kept = 16;
  std::vector<std::pair<moment, fs::path>> found;
  std::error_code failed;
  for (fs::directory_iterator i(folder.path(), failed), end; !failed && i != end; i.increment(failed))
    if (const auto begin = begin_of_left_over(i->path())) found.emplace_back(*begin, i->path());
  std::ranges::sort(found);
  for (std::size_t i = 0; i + kept < found.size(); ++i) fs::remove_all(found[i].second, failed);
}

}  // namespace

result<run_folder> make_run_folder(const fs::path& place) {
  std::error_code unknown;
  if (!fs::is_directory(place, unknown))
    return bad_input("{}: there is no such folder; make it, or set TMPDIR to another", place.string());
  const fs::path users = place / fmt::format("troupe-{}", ::geteuid());
  const auto folder = private_folder::open(users);
  if (folder) {
    remove_left_over(*folder);
    TROUPE_TRY(made, private_folder::create(users / name_of_run_now()));
    return run_folder{made.path(), ""};
  }
  std::string name = users.string() + "-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    return bad_input("{}; {}: cannot be made: {}", folder.error().message, name, std::strerror(errno));
  return run_folder{name, fmt::format("{}; the trace goes to {} instead", folder.error().message, name)};
}

void remove_old_rings(const fs::path& folder) {
  constexpr std::size_t kept = 64;
  std::map<std::uint64_t, left_rings> by_run;
  std::size_t count = 0;
  std::error_code failed;
  for (fs::directory_iterator i(folder, failed), end; !failed && i != end; i.increment(failed)) {
    if (i->path().extension() != ".ring" || !fs::is_regular_file(i->symlink_status(failed))) continue;
    const auto file = read_head(i->path());
    if (!file || file->run == 0) continue;  // its process has not joined
    by_run[file->run].add(i->path(), file);
    ++count;
  }
  std::vector<left_rings> found;
  for (auto& [run, one] : by_run)
    if (one.may_go) found.push_back(std::move(one));
  std::ranges::sort(found, {}, &left_rings::newest);
  for (std::size_t i = 0; i + 1 < found.size() && count > kept; ++i) {
    for (const fs::path& ring : found[i].rings) fs::remove(ring, failed);
    count -= found[i].rings.size();
  }
}

}  // namespace troupe::trace
