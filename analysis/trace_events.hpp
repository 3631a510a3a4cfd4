// Writes the Trace Event Format (JSON) that chrome://tracing, Perfetto and Speedscope read, one event after the other.

#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// Where an event is shown: a process and a thread of it.
struct track {
  std::uint32_t process = 0;
  std::uint32_t thread = 0;

  bool operator==(const track&) const = default;
  auto operator<=>(const track&) const = default;
};

/// Writes to `to` as it goes; nothing but a buffer is held. `name` and `args` are JSON: a text, and the fields of an
/// object without its braces. Times become microseconds with three decimals.
class trace_events {
 public:
  explicit trace_events(std::ostream& to);
  /// Ends the document; `more` are further fields of it.
  void finish(std::string_view more);

  void process_name(std::uint32_t process, std::string_view name, std::int64_t place);
  void thread_name(track where, std::string_view name, std::int64_t place);
  void slice(track where, std::string_view name, std::string_view category, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args);
  /// Beginning and end of something that may overlap with whatever else is on its track.
  void async(track where, std::string_view name, std::string_view category, std::uint64_t id, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args);
  /// An arrow between the slices that enclose these moments.
  void flow(std::uint64_t id, track from, trace::nanoseconds sent, track to, trace::nanoseconds begun);
  void instant(track where, std::string_view name, std::string_view category, trace::nanoseconds when,
               std::string_view args);
  void counter(std::uint32_t process, std::string_view name, trace::nanoseconds when, std::string_view unit,
               double value);

 private:
  void begin(char phase, track where);
  void time(std::string_view field, trace::nanoseconds when);
  void end();

  std::ostream& to_;
  std::string buffer_;
  bool is_first_ = true;
};

}  // namespace troupe::analysis
