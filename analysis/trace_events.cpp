#include "analysis/trace_events.hpp"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

namespace troupe::analysis {

namespace {

constexpr std::size_t buffer_bytes = 64 << 10;

}  // namespace

trace_events::trace_events(std::ostream& to) : to_(to), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

void trace_events::finish(std::string_view more) {
  buffer_ += "\n]";
  if (!more.empty()) fmt::format_to(std::back_inserter(buffer_), ",{}", more);
  buffer_ += "}\n";
  to_ << buffer_;
  buffer_.clear();
}

void trace_events::begin(char phase, track where) {
  fmt::format_to(std::back_inserter(buffer_), "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", is_first_ ? "" : ",", phase,
                 where.process, where.thread);
  is_first_ = false;
}

void trace_events::end() {
  buffer_ += '}';
  if (buffer_.size() < buffer_bytes) return;
  to_ << buffer_;
  buffer_.clear();
}

void trace_events::time(std::string_view field, trace::nanoseconds when) {
  constexpr trace::nanoseconds ns_per_us = 1000;
  const trace::nanoseconds size = std::abs(when);
  fmt::format_to(std::back_inserter(buffer_), ",\"{}\":{}{}.{:03}", field, when < 0 ? "-" : "", size / ns_per_us,
                 size % ns_per_us);
}

void trace_events::process_name(std::uint32_t process, std::string_view name, std::int64_t place) {
  begin('M', {process, 0});
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"process_name\",\"args\":{{\"name\":{}}}", name);
  end();
  begin('M', {process, 0});
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{}}}", place);
  end();
}

void trace_events::thread_name(track where, std::string_view name, std::int64_t place) {
  begin('M', where);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"thread_name\",\"args\":{{\"name\":{}}}", name);
  end();
  begin('M', where);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{}}}", place);
  end();
}

void trace_events::slice(track where, std::string_view name, std::string_view category, trace::nanoseconds begins,
                         trace::nanoseconds ends, std::string_view args) {
  begin('X', where);
  time("ts", begins);
  time("dur", ends - begins);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":{},\"cat\":\"{}\",\"args\":{{{}}}", name, category, args);
  end();
}

void trace_events::async(track where, std::string_view name, std::string_view category, std::uint64_t id,
                         trace::nanoseconds begins, trace::nanoseconds ends, std::string_view args) {
  for (const bool is_begin : {true, false}) {
    begin(is_begin ? 'b' : 'e', where);
    time("ts", is_begin ? begins : ends);
    fmt::format_to(std::back_inserter(buffer_), ",\"name\":{},\"cat\":\"{}\",\"id\":\"{}\",\"args\":{{{}}}", name,
                   category, id, is_begin ? args : "");
    end();
  }
}

void trace_events::flow(std::uint64_t id, track from, trace::nanoseconds sent, track to, trace::nanoseconds begun) {
  begin('s', from);
  time("ts", sent);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"message\",\"cat\":\"message\",\"id\":{}", id);
  end();
  begin('f', to);
  time("ts", begun);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":\"message\",\"cat\":\"message\",\"id\":{},\"bp\":\"e\"", id);
  end();
}

void trace_events::instant(track where, std::string_view name, std::string_view category, trace::nanoseconds when,
                           std::string_view args) {
  begin('i', where);
  time("ts", when);
  fmt::format_to(std::back_inserter(buffer_), ",\"s\":\"t\",\"name\":{},\"cat\":\"{}\",\"args\":{{{}}}", name, category,
                 args);
  end();
}

void trace_events::counter(std::uint32_t process, std::string_view name, trace::nanoseconds when, std::string_view unit,
                           double value) {
  begin('C', {process, 0});
  time("ts", when);
  fmt::format_to(std::back_inserter(buffer_), ",\"name\":{},\"args\":{{\"{}\":{}}}", name, unit, value);
  end();
}

}  // namespace troupe::analysis
