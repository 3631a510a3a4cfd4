#include "trace/run_folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/host.hpp"
#include "base/private_folder.hpp"
#include "trace/clock.hpp"
#include "trace/file_format.hpp"
#include "trace/trace_file.hpp"

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

/// Reads what a ring's file begins with.
result<trace_file> read_head(const fs::path& ring) {
  std::string head(head_bytes + metadata_bytes, '\0');
  std::ifstream from(ring, std::ios::binary);
  from.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, from.gcount())));
  return parse_trace_file(head, ring);
}

/// Whether the process that has written a ring ran on this host since it was started, and is gone. What cannot be told
/// counts as no.
bool is_of_gone_process(const fs::path& ring) {
  const auto file = read_head(ring);
  if (!file) return false;
  const auto says = [&](const char* key, const std::string& value) {
    const auto* found = file->metadata.if_contains(key);
    return found != nullptr && !value.empty() && *found == boost::json::string(value);
  };
  const auto pid = static_cast<pid_t>(file->pid);
  return says("host", host_name()) && says("boot", this_boot()) && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

/// Whether `path` is what a run of this user has left, and nobody writes there any more.
bool is_left_over(const fs::path& path) {
  struct stat found {};
  if (!is_name_of_run(path.filename().native()) || ::lstat(path.c_str(), &found) != 0) return false;
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid()) return false;
  bool has_ring = false;
  std::error_code failed;
  for (fs::directory_iterator i(path, failed), end; !failed && i != end; i.increment(failed)) {
    if (i->path().extension() != ".ring") continue;
    if (!fs::is_regular_file(i->symlink_status(failed)) || !is_of_gone_process(i->path())) return false;
    has_ring = true;
  }
  return has_ring && !failed;
}

/// Nobody else can put anything into `folder`, so what was found to be a folder stays one.
void remove_left_over(const private_folder& folder) {
  constexpr std::size_t kept = 16;
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator i(folder.path(), failed), end; !failed && i != end; i.increment(failed))
    if (is_left_over(i->path())) found.push_back(i->path());
  std::ranges::sort(found);
  for (std::size_t i = 0; i + kept < found.size(); ++i) fs::remove_all(found[i], failed);
}

}  // namespace

result<run_folder> make_run_folder(const fs::path& place) {
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
  struct left_attempt {
    std::int64_t began_ns = 0;
    std::vector<fs::path> rings;
  };
  std::map<std::uint64_t, left_attempt> by_run;
  std::size_t count = 0;
  std::error_code failed;
  for (fs::directory_iterator i(folder, failed), end; !failed && i != end; i.increment(failed)) {
    if (i->path().extension() != ".ring" || !fs::is_regular_file(i->symlink_status(failed))) continue;
    const auto file = read_head(i->path());
    if (!file || file->run == 0) continue;  // it has not joined
    left_attempt& one = by_run[file->run];
    one.began_ns = std::max(one.began_ns, file->begin.realtime_ns);
    one.rings.push_back(i->path());
    ++count;
  }
  std::vector<left_attempt> found;
  for (auto& [run, one] : by_run) found.push_back(std::move(one));
  std::ranges::sort(found, {}, &left_attempt::began_ns);
  for (std::size_t i = 0; i + 1 < found.size() && count > kept; ++i) {
    const left_attempt& one = found[i];
    if (!std::ranges::all_of(one.rings, is_of_gone_process)) continue;
    for (const fs::path& ring : one.rings) fs::remove(ring, failed);
    count -= one.rings.size();
  }
}

}  // namespace troupe::trace
