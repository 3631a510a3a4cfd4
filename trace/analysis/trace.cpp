#include "trace/analysis/trace.hpp"

#include <iterator>

#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

trace::recording without_events(const trace::recording& of) {
  trace::recording part;
  part.run = of.run;
  part.processes = of.processes;
  part.actors = of.actors;
  part.types = of.types;
  part.realtime_begin_ns = of.realtime_begin_ns;
  return part;
}

}  // namespace

trace::recording part_of(const trace::recording& of, trace::nanoseconds begin, trace::nanoseconds end) {
  trace::recording part = without_events(of);
  const auto last = std::ranges::lower_bound(of.events, end, {}, &trace::event::begin);
  std::copy_if(of.events.begin(), last, std::back_inserter(part.events),
               [&](const trace::event& one) { return one.end >= begin; });
  return part;
}

trace::recording newest_of(const trace::recording& of, std::size_t most) {
  trace::recording part = without_events(of);
  const std::size_t count = std::min(most, of.events.size());
  part.events.assign(of.events.end() - static_cast<std::ptrdiff_t>(count), of.events.end());
  return part;
}

std::string text_at(const boost::json::object& from, std::string_view key) {
  const boost::json::value* found = from.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

bool is_of_message(const trace::event& one) {
  return one.what == trace::kind::handled || one.what == trace::kind::sent || one.what == trace::kind::arrived;
}

std::string type_of(const trace::recording& run, const trace::event& one) {
  switch (one.what) {
    case trace::kind::handled:
    case trace::kind::sent:
    case trace::kind::arrived:
      return run.type_name(one.type);
    case trace::kind::drop:
      return std::string(trace::name_of(static_cast<trace::drop_reason>(one.aux)));
    case trace::kind::range:
    case trace::kind::checkpoint:
    case trace::kind::device_range:
      return run.range_text(range_of(one));
    case trace::kind::metric:
      return run.metric_text(static_cast<trace::metric_name>(one.type));
    default:
      return "";
  }
}

boost::json::object event_json(const trace::recording& run, const trace::event& one) {
  boost::json::object json = {{"kind", trace::name_of(one.what)},
                              {"begin_ns", one.begin},
                              {"end_ns", one.end},
                              {"step", one.step},
                              {"actor", run.actor_name(one.actor)}};
  if (const std::string type = type_of(run, one); !type.empty()) json["type"] = type;
  if (!is_of_message(one)) return json;
  json["message"] = run.message_name(one.id);
  json["from"] = run.actor_name(trace::sender_of(one.id));
  json["bytes"] = one.bytes;
  json["sent_ns"] = one.sent;
  json["arrived_ns"] = one.arrived;
  return json;
}

}  // namespace troupe::analysis
