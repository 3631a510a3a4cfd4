// What was recorded of a run, as analyses see it: the files of all its processes, read, decoded, and on one clock.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "trace/content.hpp"
#include "trace/file_format.hpp"

namespace troupe::trace {

/// Nanoseconds of the recording's clock: since its first moment, as the master's host saw it.
using nanoseconds = std::int64_t;

/// The number of all who ask something of a run from outside, and record nothing.
constexpr std::uint16_t client_actor = 0xffff;

/// A decoded record.
struct event {
  kind what = kind::none;
  std::uint8_t flags = 0;
  std::uint16_t actor = 0;  ///< who handled it, or whose record it is
  std::uint16_t type = 0;
  std::uint16_t aux = 0;
  std::uint32_t process = 0;  ///< of `recording::processes`
  std::uint32_t bytes = 0;
  std::uint64_t step = 0;
  std::uint64_t id = 0;
  std::uint64_t cause = 0;
  std::uint64_t raw = 0;  ///< `sent` as it was recorded, where it holds no time (kinds metric, credit_wait, credit)
  nanoseconds sent = 0;
  nanoseconds arrived = 0;
  nanoseconds begin = 0;
  nanoseconds end = 0;

  bool has(std::uint8_t which) const { return (flags & which) != 0; }
};

/// An actor's entry on the board when the file was read.
struct actor_state {
  std::uint16_t actor = 0;
  std::uint16_t incarnation = 0;
  std::string name;
  std::uint32_t process = 0;
  bool alive = false;
  std::uint64_t step = 0;
  nanoseconds step_begin = 0;  ///< -1: no step is under way
  std::uint64_t message = 0;   ///< being handled; 0: none, or work that no message asked for
  std::uint16_t message_type = 0;
  nanoseconds message_begin = 0;  ///< -1: nothing is being handled
  std::uint64_t last_sent = 0;
  std::uint64_t handled = 0;
  struct request {
    std::uint64_t id = 0;
    std::uint16_t type = 0;
    std::uint16_t peer = 0;
    std::uint64_t step = 0;
    nanoseconds since = 0;
  };
  std::vector<request> open;
  std::uint32_t open_more = 0;
};

/// One process of the run.
struct process_info {
  std::string host;
  std::string boot;  ///< processes of one boot share a clock
  std::uint32_t pid = 0;
  std::uint32_t node = 0;
  std::uint32_t incarnation = 0;
  ending end = ending::none;
  boost::json::object metadata;
  std::vector<std::filesystem::path> files;
  std::uint64_t records = 0;
  std::uint64_t overwritten = 0;  ///< records that are not there, about
  /// Whatever began then or later is recorded, as far as the filter wanted it; the greatest number: nothing is certain.
  nanoseconds complete_from = std::numeric_limits<nanoseconds>::min();
  std::uint64_t dropped = 0;  ///< by the filter
  bool filtered = false;      ///< not everything was wanted: actors that were not are not even counted
  std::uint64_t torn = 0;     ///< records that were being written when the process ended
  std::uint64_t contents_lost = 0;
  nanoseconds last = 0;  ///< the newest moment that is known of it: of its last record, or later if it was seen alive
  bool stopped = false;  ///< alive, and stopped by a signal or a debugger when its files were read
  bool is_copy = false;  ///< its files are as they were when they were copied: nothing more will come
  std::optional<bool> alive;           ///< when its files were read or copied; nothing: that cannot be known
  std::int64_t realtime_begin_ns = 0;  ///< since 1970, of when it began to record
  /// To be added to its host's clock to have the recording's, and how far that may be wrong. 0 on the master's host.
  double clock_drift_ppm = 0;
  nanoseconds clock_offset = 0;
  nanoseconds clock_error = 0;
  bool clock_aligned = true;  ///< false: nothing says how its clock relates to the others
};

/// Whether that process still records into its files, now: it is one of this machine, alive, and has not ended.
bool is_recording(const process_info& one);

struct recording {
  std::uint64_t run = 0;
  std::vector<process_info> processes;
  /// By time of begin; of one actor in the order in which things happened.
  std::vector<event> events;
  std::vector<actor_state> actors;
  std::vector<content> contents;
  std::map<std::uint16_t, std::string> types;
  std::vector<std::string> warnings;   ///< what of the files could not be read
  std::int64_t realtime_begin_ns = 0;  ///< the recording's moment 0, since 1970

  std::string actor_name(std::uint16_t actor) const;
  std::string type_name(std::uint16_t type) const;
  /// As in `trainer 1 #417`.
  std::string message_name(std::uint64_t id) const;
  /// The board's entry; null if there is none.
  const actor_state* find_actor(std::uint16_t actor) const;
  nanoseconds end() const;
  /// From when on nothing is missing of any process; the least number: nothing is missing at all.
  nanoseconds complete_from() const;
};

/// Files and folders to read, and of which run if they hold several (0: of the only one).
struct sources {
  std::vector<std::filesystem::path> paths;
  std::uint64_t run = 0;
  bool newest = false;                                      ///< of several runs the one that began last
  std::uint64_t memory_bytes_max = std::uint64_t{1} << 30;  ///< that all of them may take, and what they are made into
};

/// Reads them. Errors, one line for the user: nothing there, a foreign or damaged file, a newer version, several runs,
/// more memory than `memory_bytes_max`.
result<recording> read_recording(const sources& from);

/// The files that `from` names, and those in its folders, by name. Errors: nothing there.
result<std::vector<std::filesystem::path>> find_trace_files(const sources& from);

struct trace_file;
/// Makes one of files that have been read, one or more. Errors: as above.
result<recording> make_recording(std::vector<trace_file> files, std::uint64_t run = 0, bool newest = false);

}  // namespace troupe::trace
