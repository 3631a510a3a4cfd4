// Writes the Trace Event Format (JSON) for chrome://tracing, Perfetto and Speedscope, event by event.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// Where an event is shown: a process and a thread of it.
struct track {
  std::uint32_t process = 0;
  std::uint32_t thread = 0;

  auto operator<=>(const track&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Written as microseconds with three decimals.
struct event_time {
  trace::nanoseconds ns = 0;
};

}  // namespace troupe::analysis

template <>
struct fmt::formatter<troupe::analysis::event_time> : fmt::formatter<char> {
  auto format(troupe::analysis::event_time when, fmt::format_context& to) const {
    const auto parts = std::lldiv(std::abs(when.ns), 1000);
    return fmt::format_to(to.out(), "{}{}.{:03}", when.ns < 0 ? "-" : "", parts.quot, parts.rem);
  }
};

namespace troupe::analysis {

/// Writes to `to` as it goes and holds only a buffer. `name` is a JSON string, `args` the fields of a JSON object
/// without its braces.
class trace_events {
 public:
  explicit trace_events(std::ostream& to) : to_(to), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

  /// Ends the document. `more`: its other fields, one or more.
  void finish(std::string_view more) { to_ << buffer_ << "\n]," << more << "}\n"; }

  void process_name(std::uint32_t process, std::string_view name, std::int64_t position) {
    add('M', {process, 0}, R"("name":"process_name","args":{{"name":{}}})", name);
    add('M', {process, 0}, R"("name":"process_sort_index","args":{{"sort_index":{}}})", position);
  }

  void thread_name(track where, std::string_view name, std::int64_t position) {
    add('M', where, R"("name":"thread_name","args":{{"name":{}}})", name);
    add('M', where, R"("name":"thread_sort_index","args":{{"sort_index":{}}})", position);
  }

  void slice(track where, std::string_view name, std::string_view category, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args) {
    add('X', where, R"("ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}})", event_time{begin},
        event_time{end - begin}, name, category, args);
  }

  /// Begin and end of something that may overlap with other things on its track.
  void async(track where, std::string_view name, std::string_view category, std::uint64_t id, trace::nanoseconds begin,
             trace::nanoseconds end, std::string_view args) {
    constexpr const char* form = R"("ts":{},"name":{},"cat":"{}","id":"{}","args":{{{}}})";
    add('b', where, form, event_time{begin}, name, category, id, args);
    add('e', where, form, event_time{end}, name, category, id, "");
  }

  /// An arrow between the slices that enclose these moments.
  void flow(std::uint64_t id, track from, trace::nanoseconds sent, track to, trace::nanoseconds begun) {
    add('s', from, R"("ts":{},"name":"message","cat":"message","id":{})", event_time{sent}, id);
    add('f', to, R"("ts":{},"name":"message","cat":"message","id":{},"bp":"e")", event_time{begun}, id);
  }

  void instant(track where, std::string_view name, std::string_view category, trace::nanoseconds when,
               std::string_view args) {
    add('i', where, R"("ts":{},"s":"t","name":{},"cat":"{}","args":{{{}}})", event_time{when}, name, category, args);
  }

  void counter(std::uint32_t process, std::string_view name, trace::nanoseconds when, std::string_view unit,
               double value) {
    add('C', {process, 0}, R"("ts":{},"name":{},"args":{{"{}":{}}})", event_time{when}, name, unit, value);
  }

 private:
  /// Adds an event with the fields that `form` makes of `values`.
  template <class... T>
  void add(char phase, track where, fmt::format_string<const T&...> form, const T&... values) {
    const auto end = std::back_inserter(buffer_);
    fmt::format_to(end, "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},", is_first_ ? "" : ",", phase, where.process,
                   where.thread);
    fmt::format_to(end, form, values...);
    buffer_ += '}';
    is_first_ = false;
    constexpr std::size_t buffer_bytes = 64 << 10;
    if (buffer_.size() < buffer_bytes) return;
    to_ << buffer_;
    buffer_.clear();
  }

  std::ostream& to_;
  std::string buffer_;
  bool is_first_ = true;
};

}  // namespace troupe::analysis
