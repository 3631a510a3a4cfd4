// Writes the Trace Event Format (JSON) for chrome://tracing, Perfetto and Speedscope, event by event.

#pragma once

#include <fmt/format.h>

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

  auto operator<=>(const track&) const = default;
};

/// Writes to `to` as it goes and holds only a buffer. `name` is a JSON string, `args` the fields of a JSON object
/// without its braces. Times are written as microseconds with three decimals.
class trace_events {
 public:
  explicit trace_events(std::ostream& to);
  /// Ends the document. `more`: its other fields, one or more.
  void finish(std::string_view more);

  void process_name(std::uint32_t process, std::string_view name, std::int64_t position);
  void thread_name(track where, std::string_view name, std::int64_t position);
  void slice(track where, std::string_view name, std::string_view category, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args);
  /// Begin and end of something that may overlap with other things on its track.
  void async(track where, std::string_view name, std::string_view category, std::uint64_t id, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args);
  /// An arrow between the slices that enclose these moments.
  void flow(std::uint64_t id, track from, trace::nanoseconds sent, track to, trace::nanoseconds begun);
  void instant(track where, std::string_view name, std::string_view category, trace::nanoseconds when,
               std::string_view args);
  void counter(std::uint32_t process, std::string_view name, trace::nanoseconds when, std::string_view unit,
               double value);

 private:
  /// Adds an event with the fields that `form` makes of `values`.
  template <class... T>
  void add(char phase, track where, fmt::format_string<const T&...> form, const T&... values);

  std::ostream& to_;
  std::string buffer_;
  bool is_first_ = true;
};

}  // namespace troupe::analysis
