// Makes a recording from trace files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "base/host.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "trace/record/clock_alignment.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/tick_clock.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

namespace {

/// The files of one process: its ring and its log hold the same chunks, or one has some that the other lacks.
struct one_process {
  std::vector<trace_file> files;
  std::map<std::uint64_t, const trace_file::chunk*> chunks;
  trace_file* newest = nullptr;  ///< the file whose head and board are used
};

std::string text_of(const boost::json::object& from, std::string_view key) {
  const auto* found = from.if_contains(key);
  return found != nullptr && found->is_string() ? harmless(found->as_string()) : "";
}

/// A sort key, greater is newer: a ring is written until the end, a log some time later, a copy never again.
auto age_of(const trace_file& file) {
  return std::tuple(file.next_chunk, file.seen.ticks == 0, !file.is_log, file.seen.ticks);
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
      for (trace_file& file : one.files) {
        // The copy may have been made while the chunk was being filled.
        for (const auto& [number, chunk] : file.chunks) {
          const trace_file::chunk*& kept = one.chunks[number];
          if (kept == nullptr || kept->records.size() < chunk.records.size()) kept = &chunk;
        }
        if (one.newest == nullptr || age_of(*one.newest) < age_of(file)) one.newest = &file;
      }
      take_sound_metadata(one);
    }
    std::ranges::sort(processes_, {},
                      [](const one_process& one) { return std::pair(one.newest->node, one.newest->pid); });
  }

  recording take() {
    made_.run = processes_.front().newest->run;
    make_clocks();
    make_room();
    for (one_process& one : processes_) add_process(one);
    find_senders();
    for (std::uint32_t i = 0; i < processes_.size(); ++i) add_events(i);
    const auto order = [](const event& a, const event& b) {
      return std::tie(a.begin, b.end) < std::tie(b.begin, a.end);  // an enclosing event comes first
    };
    std::ranges::stable_sort(made_.events, order);
    return std::move(made_);
  }

 private:
  /// Ring and log have the same metadata, and one of the two may be damaged.
  static void take_sound_metadata(one_process& one) {
    const auto sound = std::ranges::find(one.files, "", &trace_file::metadata_fault);
    if (one.newest->metadata_fault.empty() || sound == one.files.end()) return;
    one.newest->metadata = sound->metadata;
    one.newest->metadata_fault.clear();
  }

  /// Reserves memory for all contents and events at once: growing the lists would use up to three times as much.
  void make_room() {
    std::size_t contents = 0, records = 0;
    for (const one_process& one : processes_) {
      for (const trace_file& file : one.files) contents += file.contents.size();
      for (const auto& [number, chunk] : one.chunks) records += chunk->records.size();
    }
    made_.contents.reserve(contents);
    made_.events.reserve(records);
  }

  /// Makes a clock for each boot of each machine, and aligns them.
  void make_clocks() {
    std::vector<std::vector<clock_sample>> samples;
    std::vector<double> rates;
    for (const one_process& one : processes_) {
      const boost::json::object& about = one.newest->metadata;
      const auto [at, is_new] = host_of_boot_.try_emplace(text_of(about, "boot"), samples.size());
      hosts_.push_back(at->second);
      if (is_new) {
        samples.emplace_back();
        const auto* rate = about.if_contains("ticks_per_second");
        rates.push_back(rate != nullptr && rate->is_double() ? rate->as_double() : 0);
      }
      samples[at->second].push_back(one.newest->begin);
      for (const auto& [number, chunk] : one.chunks) samples[at->second].push_back(chunk->begin);
    }
    for (std::size_t host = 0; host < samples.size(); ++host) clocks_.emplace_back(samples[host], rates[host]);
    lines_.resize(clocks_.size());
    if (clocks_.size() > 1) align();
    zero_ns_ = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < processes_.size(); ++i)
      if (hosts_[i] == hosts_[0])
        zero_ns_ = std::min(zero_ns_, clocks_[hosts_[0]].monotonic_ns(processes_[i].newest->begin.ticks));
    made_.realtime_begin_ns = zero_ns_ + clocks_[hosts_[0]].realtime_offset_ns();
  }

  /// Aligns the clocks by the messages between hosts.
  void align() {
    std::map<std::uint16_t, std::size_t> host_of;
    std::vector<host_clock> hosts(clocks_.size());
    for (std::size_t host = 0; host < clocks_.size(); ++host) {
      hosts[host].first = std::numeric_limits<std::int64_t>::max();
      hosts[host].last = std::numeric_limits<std::int64_t>::min();
      hosts[host].realtime = clocks_[host].realtime_offset_ns();
    }
    for (std::size_t i = 0; i < processes_.size(); ++i)
      for (const board_row& row : processes_[i].newest->board) host_of[row.actor] = hosts_[i];
    std::vector<crossing> messages;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const std::size_t here = hosts_[i];
      for (const auto& [number, chunk] : processes_[i].chunks) {
        for (const record& one : chunk->records) {
          const std::int64_t begin = clocks_[here].monotonic_ns(one.begin);
          hosts[here].first = std::min(hosts[here].first, begin);
          hosts[here].last = std::max(hosts[here].last, begin);
          const bool is_remote = one.what() == kind::handled && (one.flags() & flag::remote) != 0;
          const auto sender = host_of.find(sender_of(one.id));
          if (one.sent == 0 || !(is_remote || one.what() == kind::arrived) || sender == host_of.end() ||
              sender->second == here)
            continue;
          messages.push_back({static_cast<std::uint32_t>(sender->second), static_cast<std::uint32_t>(here),
                              clocks_[sender->second].monotonic_ns(one.sent),
                              clocks_[here].monotonic_ns(one.begin - one.queued())});
        }
      }
    }
    for (auto& host : hosts)
      if (host.first > host.last) host.first = host.last = 0;  // it has no records
    lines_ = align_clocks(hosts, messages, static_cast<std::uint32_t>(hosts_[0]));
  }

  /// A time on the recording's clock, limited to a year: sums of a damaged file's claims must not overflow.
  nanoseconds time(std::size_t host, std::uint64_t ticks) const {
    constexpr nanoseconds most = nanoseconds{1} << 55;
    return std::clamp(lines_[host].to_reference(clocks_[host].monotonic_ns(ticks)) - zero_ns_, -most, most);
  }

  /// Adds a process; moves the contents out of its files, because they are the largest part.
  void add_process(one_process& one) {
    const trace_file& from = *one.newest;
    const auto place = static_cast<std::uint32_t>(made_.processes.size());
    process_info& to = made_.processes.emplace_back();
    to.host = text_of(from.metadata, "host");
    to.boot = text_of(from.metadata, "boot");
    static_cast<recorded_process&>(to) = from;
    see_alive(from, to);
    to.realtime_begin_ns = from.begin.realtime_ns;
    const clock_line& line = lines_[hosts_[place]];
    to.clock_offset = line.offset;
    to.clock_drift_ppm = line.drift_ppm;
    to.clock_error = line.error;
    to.clock_aligned = line.aligned;
    for (trace_file& file : one.files) {
      to.files.push_back(file.path);
      made_.warnings.insert(made_.warnings.end(), file.warnings.begin(), file.warnings.end());
      std::ranges::move(file.contents, std::back_inserter(made_.contents));
      file.contents = {};
    }
    const auto* filtered = from.metadata.if_contains("filtered");
    to.filtered = from.dropped > 0 || (filtered != nullptr && *filtered == true);
    if (!to.metadata_fault.empty())
      made_.warnings.push_back(fmt::format("{}: its metadata {}, and with them what its numbers mean",
                                           from.path.string(), to.metadata_fault));
    find_gaps(one, to, hosts_[place]);
    read_types(from.metadata);
    read_names(from.metadata);
    for (const board_row& row : from.board) {
      to.dropped += row.dropped;
      add_actor(row, place);
    }
    for (const auto& [actor, call] : from.calls) add_call(actor, call, place);
  }

  /// Finds how many records are missing, and the time until which some may be: a thread abandons a chunk once half of
  /// the ring has been claimed since, so any later record is in another chunk.
  void find_gaps(const one_process& one, process_info& to, std::size_t host) const {
    const std::uint64_t taken = std::max(one.newest->next_chunk, one.chunks.empty() ? 0 : one.chunks.rbegin()->first);
    std::uint64_t capacity = 0;
    for (const trace_file& file : one.files) capacity = std::max(capacity, file.chunk_capacity);
    const bool has_ring = capacity > 0;
    if (const auto* chunks = one.newest->metadata.if_contains("ring_chunks"); chunks != nullptr && chunks->is_int64())
      capacity =
          std::max<std::uint64_t>(capacity, static_cast<std::uint64_t>(std::max<std::int64_t>(0, chunks->get_int64())));
    // A ring still has its last chunks: if one of them is missing, a thread has claimed it but not begun it.
    const std::uint64_t last = has_ring ? taken - std::min(taken, capacity) : taken;
    const auto beyond = one.chunks.upper_bound(last);
    const auto there = static_cast<std::uint64_t>(std::distance(one.chunks.begin(), beyond));
    to.overwritten = (last - std::min(last, there)) * records_per_chunk;
    if (to.overwritten == 0) return;
    std::uint64_t missing = last;
    while (one.chunks.contains(missing)) --missing;
    const auto safe = one.chunks.upper_bound(missing + capacity / 2);
    to.complete_from = capacity == 0 || safe == one.chunks.end() ? std::numeric_limits<nanoseconds>::max()
                                                                 : time(host, safe->second->begin.ticks);
  }

  void see_alive(const trace_file& from, process_info& to) {
    const std::size_t host = hosts_[made_.processes.size() - 1];
    to.is_copy = from.seen.ticks != 0;
    to.alive = is_alive(from);
    to.stopped = to.alive.value_or(false) && is_stopped(from);
    if (!to.alive.value_or(false)) return;
    const std::uint64_t read_from = from.read_from != 0 ? from.read_from : ticks_now();
    to.last = time(host, from.seen.ticks != 0 ? from.seen.ticks : read_from);
  }

  void read_names(const boost::json::object& metadata) {
    const auto* names = metadata.if_contains("names");
    if (names == nullptr || !names->is_object()) return;
    for (const auto& [number, name] : names->as_object()) {
      const auto key = parse_number<std::uint16_t>(number);
      if (!key || *key < given_names_begin || *key >= given_names_end || !name.is_string()) continue;
      std::string text = harmless(name.as_string());
      const auto [known, is_new] = made_.types.emplace(*key, text);
      if (!is_new && known->second.find(text) == std::string::npos) known->second += " or " + text;
    }
  }

  void read_types(const boost::json::object& metadata) {
    const auto* types = metadata.if_contains("types");
    if (types == nullptr || !types->is_array()) return;
    for (const auto& item : types->as_array()) {
      if (!item.is_array() || item.as_array().size() < 2) continue;
      const auto& pair = item.as_array();
      if (pair[0].is_int64() && pair[1].is_string())
        made_.types.emplace(static_cast<std::uint16_t>(pair[0].as_int64()), harmless(pair[1].as_string()));
    }
  }

  void add_actor(const board_row& row, std::uint32_t process) {
    const auto moment = [&](std::uint64_t ticks) { return ticks == 0 ? -1 : time(hosts_[process], ticks); };
    actor_state& to = made_.actors.emplace_back();
    static_cast<recorded_actor&>(to) = row;
    to.name = harmless(row.name);
    to.process = process;
    to.alive = row.state == 1;
    to.step_begin = moment(row.step_begin);
    to.message_begin = moment(row.message_begin);
    for (const board_row::request& one : row.open)
      to.open.push_back({one.id, one.type, one.peer, one.step, moment(one.since)});
  }

  void add_call(std::uint16_t actor, const call_state& call, std::uint32_t process) {
    for (actor_state& one : made_.actors)
      if (one.actor == actor && one.process == process) {
        one.calls.push_back({call, time(hosts_[process], call.since)});
        return;
      }
  }

  /// Finds the host whose clock `sent` is on: the one of the sender's process.
  void find_senders() {
    for (const actor_state& one : made_.actors) host_of_actor_[one.actor] = hosts_[one.process];
  }

  /// Turns the records of a process into events, and frees them.
  void add_events(std::uint32_t place) {
    process_info& mine = made_.processes[place];
    for (const auto& [number, chunk] : processes_[place].chunks) {
      for (const record& one : chunk->records) {
        made_.events.push_back(decode(one, place));
        mine.last = std::max(mine.last, made_.events.back().end);
        ++mine.records;
      }
    }
    processes_[place] = {};
  }

  event decode(const record& from, std::uint32_t place) const {
    const std::size_t here = hosts_[place];
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
    to.begin = time(here, from.begin);
    to.end = std::max(to.begin, time(here, from.begin + from.busy()));
    const bool is_known_when = from.queued() != record::max48 && from.queued() <= from.begin;
    to.arrived = is_known_when ? time(here, from.begin - from.queued()) : to.begin;
    const bool sent_is_time = to.what == kind::handled || to.what == kind::arrived || to.what == kind::collective;
    if (!sent_is_time) {
      to.raw = from.sent;
      to.sent = to.begin;
      return to;
    }
    const auto sender = host_of_actor_.find(to.what == kind::collective ? to.actor : sender_of(to.id));
    const bool is_known = from.sent != 0 && (sender != host_of_actor_.end() || !to.has(flag::remote));
    to.sent = is_known ? time(sender != host_of_actor_.end() ? sender->second : here, from.sent) : to.arrived;
    return to;
  }

  std::vector<one_process> processes_;
  std::map<std::string, std::size_t> host_of_boot_;
  std::vector<std::size_t> hosts_;  ///< by process
  std::vector<tick_clock> clocks_;  ///< by host
  std::vector<clock_line> lines_;   ///< by host: the line to the clock of the first process's host
  std::int64_t zero_ns_ = 0;        ///< time zero, on the clock of the first process's host
  std::map<std::uint16_t, std::size_t> host_of_actor_;
  recording made_;
};

}  // namespace

result<recording> make_recording(std::vector<trace_file> files, const sources& from) {
  auto attempts = attempts_in(files);
  TROUPE_TRY(chosen, choose_run(files, attempts, from));
  std::erase_if(files, [&](const trace_file& file) { return file.run != chosen; });
  recording made = reader(std::move(files)).take();
  made.attempts = std::move(attempts);
  return made;
}

}  // namespace troupe::trace
