// The recording of a run for analysis: the files of all its processes, read, decoded, and on one clock.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/record/attempts.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

/// Nanoseconds since the recording's first moment, on the clock of the master's host.
using nanoseconds = std::int64_t;

/// The actor number shared by all external clients, which query a run and record nothing.
constexpr std::uint16_t client_actor = 0xffff;

/// A decoded record.
struct event {
  kind what = kind::none;
  std::uint8_t flags = 0;
  std::uint16_t actor = 0;  ///< the actor that handled it, or that the record belongs to
  std::uint16_t type = 0;
  std::uint16_t aux = 0;
  std::uint32_t process = 0;  ///< index in `recording::processes`
  std::uint32_t bytes = 0;
  std::uint64_t step = 0;
  std::uint64_t id = 0;
  std::uint64_t cause = 0;
  std::uint64_t raw = 0;  ///< the recorded `sent` where it is not a time (kinds metric, credit_wait, credit)
  nanoseconds sent = 0;
  nanoseconds arrived = 0;
  nanoseconds begin = 0;
  nanoseconds end = 0;

  bool has(std::uint8_t which) const { return (flags & which) != 0; }
};

/// An actor's entry on the board when the file was read.
struct actor_state : recorded_actor {
  std::uint32_t process = 0;
  bool alive = false;
  nanoseconds step_begin = 0;     ///< -1: no step is under way
  nanoseconds message_begin = 0;  ///< -1: nothing is being handled
  struct request {
    std::uint64_t id = 0;
    std::uint16_t type = 0;
    std::uint16_t peer = 0;
    std::uint64_t step = 0;
    nanoseconds since = 0;
  };
  std::vector<request> open;
  struct call {
    call_state what;
    nanoseconds since = 0;
  };
  std::vector<call> calls;  ///< to other trainers: open collectives, and tensors that it waits to receive
};

/// One process of the run.
struct process_info : recorded_process {
  std::string host;
  std::string boot;  ///< processes of one boot share a clock
  std::vector<std::filesystem::path> files;
  std::uint64_t records = 0;
  std::uint64_t overwritten = 0;  ///< records lost to overwriting, approximately
  /// Everything that began at this time or later is recorded, unless filtered out; the maximum: nothing is certain.
  nanoseconds complete_from = std::numeric_limits<nanoseconds>::min();
  bool filtered = false;   ///< recording was filtered: actors that were excluded are not even counted
  std::uint64_t torn = 0;  ///< records that were being written when the process ended
  /// The last known moment: its last record, or, if it was seen alive and that is later, when its files were read.
  nanoseconds last = 0;
  bool stopped = false;                ///< alive, but stopped by a signal or a debugger when its files were read
  bool is_copy = false;                ///< its files are copies: no more records will come
  std::optional<bool> alive;           ///< when its files were read or copied; nullopt: unknown
  std::int64_t realtime_begin_ns = 0;  ///< when it began to record, since 1970
  /// The correction from its host's clock to the recording's clock, and the maximum error. 0 on the master's host.
  double clock_drift_ppm = 0;
  nanoseconds clock_offset = 0;
  nanoseconds clock_error = 0;
  bool clock_aligned = true;  ///< false: its relation to the other clocks is unknown
};

/// Whether that process is recording into its files right now: it runs on this machine and has not ended.
bool is_recording(const process_info& one);

struct recording {
  std::uint64_t run = 0;
  std::vector<attempt_info> attempts;  ///< at this run, in all files; empty: it was not supervised
  std::vector<process_info> processes;
  /// Sorted by begin; the events of one actor are in the order in which they happened.
  std::vector<event> events;
  std::vector<actor_state> actors;
  std::vector<content> contents;
  std::map<std::uint16_t, std::string> types;
  std::vector<std::string> warnings;   ///< which parts of the files could not be read
  std::int64_t realtime_begin_ns = 0;  ///< the recording's moment 0, since 1970

  std::string actor_name(std::uint16_t actor) const;
  std::string type_name(std::uint16_t type) const;
  /// The name of the work in a record of kind range or checkpoint.
  std::string range_text(range_name what) const;
  /// The name of the metric in a record of kind metric.
  std::string metric_text(metric_name what) const;
  /// E.g. `trainer 1 #417`.
  std::string message_name(std::uint64_t id) const;
  /// Returns the attempt that this recording shows; null if the run was not supervised.
  const attempt_info* attempt() const;
  /// The actor's board entry, or null.
  const actor_state* find_actor(std::uint16_t actor) const;
  nanoseconds end() const;
  /// Returns a file whose metadata cannot be read, and why: verdicts about the run would then be guesses. Null: all can
  /// be read.
  std::optional<std::string> unreadable_metadata() const;
  /// The time from which no process lacks records; the minimum: nothing is missing at all.
  nanoseconds complete_from() const;
};

/// The files and folders to read, and the run to read if they hold several (0: the only one).
struct sources {
  std::vector<std::filesystem::path> paths;
  std::uint64_t run = 0;
  std::uint64_t attempt = 0;  ///< at a supervised run; 0: the newest
  bool newest = false;        ///< read the run that began last
  bool only_rings = false;    ///< leave out logs that have a ring: for the present state, which needs no history
  std::uint64_t memory_bytes_max = std::uint64_t{1}
                                   << 30;  ///< limit for all files and for the recording made from them
};

/// Reads a recording. Errors (one line for the user): nothing there, a foreign or damaged file, another version,
/// several runs that are not attempts at one, more memory than `memory_bytes_max`.
result<recording> read_recording(const sources& from);

/// Returns the files that `from` names and those in its folders, sorted by name. Errors: nothing there.
result<std::vector<std::filesystem::path>> find_trace_files(const sources& from);

/// Makes a recording from one or more files already read. Errors: as read_recording.
/// If there are several attempts at one supervised run, uses the one that `from` names, else the newest.
result<recording> make_recording(std::vector<trace_file> files, const sources& from = {});

}  // namespace troupe::trace
