// Makes a recording of trace files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "trace/tick_clock.hpp"
#include "trace/recording.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

namespace {

/// The files of one process: its ring and its log hold the same chunks, or either has some that the other lacks.
struct one_process {
  std::vector<trace_file> files;
  std::map<std::uint64_t, const trace_file::chunk*> chunks;
  const trace_file* newest = nullptr;  ///< whose head and board count
};

std::string text_of(const boost::json::object& from, std::string_view key) {
  const auto* found = from.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
}

tl::expected<std::vector<std::filesystem::path>, std::string> find_files(const sources& from) {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& path : from.paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed)) {
      if (!std::filesystem::exists(path, failed))
        return tl::unexpected(fmt::format("{}: there is no such file or folder", path.string()));
      found.push_back(path);
      continue;
    }
    const std::size_t before = found.size();
    for (std::filesystem::recursive_directory_iterator i(path, failed), end; !failed && i != end; i.increment(failed)) {
      const auto extension = i->path().extension();
      if (i->is_regular_file(failed) && (extension == ".ring" || extension == ".log")) found.push_back(i->path());
    }
    if (failed) return tl::unexpected(fmt::format("{}: cannot be read: {}", path.string(), failed.message()));
    if (found.size() == before)
      return tl::unexpected(fmt::format("{}: holds no traces (*.ring, *.log)", path.string()));
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Which run to read: the one that was named, or the only one.
tl::expected<std::uint64_t, std::string> choose_run(const std::vector<trace_file>& files, std::uint64_t wanted) {
  std::map<std::uint64_t, std::size_t> runs;
  for (const trace_file& file : files) ++runs[file.run];
  if (wanted != 0) {
    if (runs.contains(wanted)) return wanted;
    std::vector<std::uint64_t> known;
    for (const auto& [run, count] : runs) known.push_back(run);
    return tl::unexpected(fmt::format("run {}: not among these files, which are of run {}", wanted,
                                      fmt::join(known, ", ")));
  }
  if (runs.size() > 1) runs.erase(0);  // a process that had not joined yet
  if (runs.size() == 1) return runs.begin()->first;
  std::string words;
  for (const auto& [run, count] : runs)
    words += fmt::format("{}{} ({} file{})", words.empty() ? "" : ", ", run, count, count == 1 ? "" : "s");
  return tl::unexpected(fmt::format("these files are of {} runs: {}; name one by --run", runs.size(), words));
}

class reader {
 public:
  explicit reader(std::vector<trace_file> files) {
    std::map<std::uint64_t, std::size_t> places;
    for (trace_file& file : files) {
      const auto [at, is_new] = places.try_emplace(file.process, processes_.size());
      if (is_new) processes_.emplace_back();
      processes_[at->second].files.push_back(std::move(file));
    }
    for (one_process& one : processes_) {
      for (const trace_file& file : one.files) {
        for (const auto& [number, chunk] : file.chunks) one.chunks.emplace(number, &chunk);
        // A ring is written until the end, a log some time later.
        if (one.newest == nullptr || !file.is_log) one.newest = &file;
      }
    }
    std::ranges::sort(processes_, {}, [](const one_process& one) { return std::pair(one.newest->node, one.newest->pid); });
  }

  recording take() {
    made_.run = processes_.front().newest->run;
    make_clocks();
    for (const one_process& one : processes_) add_process(one);
    find_senders();
    for (std::uint32_t i = 0; i < processes_.size(); ++i) add_events(i);
    const auto order = [](const event& a, const event& b) {
      return std::tie(a.begin, b.end) < std::tie(b.begin, a.end);  // what contains another comes first
    };
    std::ranges::stable_sort(made_.events, order);
    return std::move(made_);
  }

 private:
  void make_clocks() {
    std::map<std::string, std::vector<clock_sample>> samples;
    std::map<std::string, double> rates;
    for (const one_process& one : processes_) {
      const boost::json::object& about = one.newest->metadata;
      const std::string boot = text_of(about, "boot");
      auto& mine = samples[boot];
      mine.push_back(one.newest->begin);
      for (const auto& [number, chunk] : one.chunks) mine.push_back(chunk->begin);
      const auto* rate = about.if_contains("ticks_per_second");
      rates[boot] = rate != nullptr && rate->is_double() ? rate->as_double() : 0;
    }
    for (auto& [boot, all] : samples) clocks_.emplace(boot, tick_clock(std::move(all), rates[boot]));
    const trace_file& first = *processes_.front().newest;
    reference_ = text_of(first.metadata, "boot");
    const tick_clock& clock = clocks_.at(reference_);
    zero_ns_ = std::numeric_limits<std::int64_t>::max();
    for (const one_process& one : processes_)
      if (text_of(one.newest->metadata, "boot") == reference_)
        zero_ns_ = std::min(zero_ns_, clock.monotonic_ns(one.newest->begin.ticks));
    made_.realtime_begin_ns = zero_ns_ + clock.realtime_offset_ns();
  }

  /// On the recording's clock; what is of another host is aligned by the clocks that show the time of day until
  /// messages say it better.
  nanoseconds time(const std::string& boot, std::uint64_t ticks) const {
    const tick_clock& clock = clocks_.at(boot);
    const tick_clock& reference = clocks_.at(reference_);
    return clock.monotonic_ns(ticks) + clock.realtime_offset_ns() - reference.realtime_offset_ns() - zero_ns_;
  }

  void add_process(const one_process& one) {
    const trace_file& from = *one.newest;
    const auto place = static_cast<std::uint32_t>(made_.processes.size());
    process_info& to = made_.processes.emplace_back();
    to.host = text_of(from.metadata, "host");
    to.boot = text_of(from.metadata, "boot");
    to.pid = from.pid;
    to.node = from.node;
    to.incarnation = from.incarnation;
    to.end = from.end;
    to.metadata = from.metadata;
    to.dropped = from.dropped;
    to.contents_lost = from.contents_lost;
    to.realtime_begin_ns = from.begin.realtime_ns;
    to.clock_aligned = to.boot == reference_;
    for (const trace_file& file : one.files) {
      to.files.push_back(file.path);
      made_.warnings.insert(made_.warnings.end(), file.warnings.begin(), file.warnings.end());
      made_.contents.insert(made_.contents.end(), file.contents.begin(), file.contents.end());
    }
    to.overwritten = (std::max<std::uint64_t>(from.next_chunk, one.chunks.size()) - one.chunks.size()) * records_per_chunk;
    read_types(from.metadata);
    for (const board_row& row : from.board) add_actor(row, to.boot, place);
  }

  void read_types(const boost::json::object& metadata) {
    const auto* types = metadata.if_contains("types");
    if (types == nullptr || !types->is_array()) return;
    for (const auto& item : types->as_array()) {
      if (!item.is_array() || item.as_array().size() < 2) continue;
      const auto& pair = item.as_array();
      if (pair[0].is_int64() && pair[1].is_string())
        made_.types.emplace(static_cast<std::uint16_t>(pair[0].as_int64()), std::string(pair[1].as_string()));
    }
  }

  void add_actor(const board_row& row, const std::string& boot, std::uint32_t process) {
    const auto moment = [&](std::uint64_t ticks) { return ticks == 0 ? -1 : time(boot, ticks); };
    actor_state& to = made_.actors.emplace_back();
    to.actor = row.actor;
    to.incarnation = row.incarnation;
    to.name = row.name;
    to.process = process;
    to.alive = row.state == 1;
    to.step = row.step;
    to.step_begin = moment(row.step_begin);
    to.message = row.message;
    to.message_type = static_cast<std::uint16_t>(row.message_type);
    to.message_begin = moment(row.message_begin);
    to.last_sent = row.last_sent;
    to.handled = row.handled;
    to.open_more = row.open_more;
    for (const board_row::request& one : row.open)
      to.open.push_back({one.id, one.type, one.peer, one.step, moment(one.since)});
  }

  /// Whose clock `sent` is of: that of the process with the sender.
  void find_senders() {
    for (const actor_state& one : made_.actors) boot_of_[one.actor] = made_.processes[one.process].boot;
  }

  void add_events(std::uint32_t place) {
    process_info& mine = made_.processes[place];
    for (const auto& [number, chunk] : processes_[place].chunks) {
      for (const record& one : chunk->records) {
        made_.events.push_back(decode(one, place, mine.boot));
        mine.last = std::max(mine.last, made_.events.back().end);
        ++mine.records;
      }
    }
  }

  event decode(const record& from, std::uint32_t place, const std::string& boot) const {
    event to;
    to.what = from.what();
    to.flags = from.flags();
    to.actor = from.actor();
    to.type = from.type();
    to.aux = from.aux();
    to.process = place;
    to.bytes = from.bytes();
    to.step = from.step();
    to.id = from.id;
    to.cause = from.cause;
    to.begin = time(boot, from.begin);
    to.end = time(boot, from.begin + from.busy());
    to.arrived = from.queued() == record::max48 ? to.begin : time(boot, from.begin - from.queued());
    const bool sent_is_time = to.what == kind::handled || to.what == kind::arrived || to.what == kind::collective;
    if (!sent_is_time) {
      to.raw = from.sent;
      to.sent = to.begin;
      return to;
    }
    const auto sender = boot_of_.find(to.what == kind::collective ? to.actor : sender_of(to.id));
    const bool is_known = from.sent != 0 && (sender != boot_of_.end() || !to.has(flag::remote));
    to.sent = is_known ? time(sender != boot_of_.end() ? sender->second : boot, from.sent) : to.arrived;
    return to;
  }

  std::vector<one_process> processes_;
  std::map<std::string, tick_clock> clocks_;  ///< by boot
  std::string reference_;
  std::int64_t zero_ns_ = 0;
  std::map<std::uint16_t, std::string> boot_of_;  ///< by actor
  recording made_;
};

}  // namespace

tl::expected<recording, std::string> read_recording(const sources& from) {
  const auto paths = find_files(from);
  if (!paths) return tl::unexpected(paths.error());
  std::vector<trace_file> files;
  for (const std::filesystem::path& path : *paths) {
    auto file = read_trace_file(path);
    if (!file) return tl::unexpected(std::move(file.error()));
    files.push_back(std::move(*file));
  }
  const auto run = choose_run(files, from.run);
  if (!run) return tl::unexpected(run.error());
  std::erase_if(files, [&](const trace_file& file) { return file.run != *run; });
  return reader(std::move(files)).take();
}

}  // namespace troupe::trace
