#include "analysis/trace_events.hpp"

#include <cstdlib>
#include <iterator>

namespace {

struct microseconds {
  troupe::trace::nanoseconds time = 0;
};

}  // namespace

template <>
struct fmt::formatter<microseconds> : fmt::formatter<char> {
  auto format(microseconds of, fmt::format_context& to) const {
    constexpr troupe::trace::nanoseconds ns_per_us = 1000;
    const troupe::trace::nanoseconds size = std::abs(of.time);
    return fmt::format_to(to.out(), "{}{}.{:03}", of.time < 0 ? "-" : "", size / ns_per_us, size % ns_per_us);
  }
};

namespace troupe::analysis {

trace_events::trace_events(std::ostream& to) : to_(to), buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

void trace_events::finish(std::string_view more) { to_ << buffer_ << "\n]," << more << "}\n"; }

template <class... T>
void trace_events::add(char phase, track where, fmt::format_string<const T&...> form, const T&... values) {
  fmt::format_to(std::back_inserter(buffer_), "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},", is_first_ ? "" : ",", phase,
                 where.process, where.thread);
  fmt::format_to(std::back_inserter(buffer_), form, values...);
  buffer_ += '}';
  is_first_ = false;
  constexpr std::size_t buffer_bytes = 64 << 10;
  if (buffer_.size() < buffer_bytes) return;
  to_ << buffer_;
  buffer_.clear();
}

void trace_events::process_name(std::uint32_t process, std::string_view name, std::int64_t position) {
  add('M', {process, 0}, R"("name":"process_name","args":{{"name":{}}})", name);
  add('M', {process, 0}, R"("name":"process_sort_index","args":{{"sort_index":{}}})", position);
}

void trace_events::thread_name(track where, std::string_view name, std::int64_t position) {
  add('M', where, R"("name":"thread_name","args":{{"name":{}}})", name);
  add('M', where, R"("name":"thread_sort_index","args":{{"sort_index":{}}})", position);
}

void trace_events::slice(track where, std::string_view name, std::string_view category, trace::nanoseconds begin,
                         trace::nanoseconds end, std::string_view args) {
  add('X', where, R"("ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}})", microseconds{begin},
      microseconds{end - begin}, name, category, args);
}

void trace_events::async(track where, std::string_view name, std::string_view category, std::uint64_t id,
                         trace::nanoseconds begin, trace::nanoseconds end, std::string_view args) {
  constexpr const char* form = R"("ts":{},"name":{},"cat":"{}","id":"{}","args":{{{}}})";
  add('b', where, form, microseconds{begin}, name, category, id, args);
  add('e', where, form, microseconds{end}, name, category, id, "");
}

void trace_events::flow(std::uint64_t id, track from, trace::nanoseconds sent, track to, trace::nanoseconds begun) {
  add('s', from, R"("ts":{},"name":"message","cat":"message","id":{})", microseconds{sent}, id);
  add('f', to, R"("ts":{},"name":"message","cat":"message","id":{},"bp":"e")", microseconds{begun}, id);
}

void trace_events::instant(track where, std::string_view name, std::string_view category, trace::nanoseconds when,
                           std::string_view args) {
  add('i', where, R"("ts":{},"s":"t","name":{},"cat":"{}","args":{{{}}})", microseconds{when}, name, category, args);
}

void trace_events::counter(std::uint32_t process, std::string_view name, trace::nanoseconds when, std::string_view unit,
                           double value) {
  add('C', {process, 0}, R"("ts":{},"name":{},"args":{{"{}":{}}})", microseconds{when}, name, unit, value);
}

}  // namespace troupe::analysis
