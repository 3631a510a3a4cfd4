#include "analysis/event_json.hpp"

#include "trace/names.hpp"

namespace troupe::analysis {

bool is_of_message(const event& one) {
  return one.what == kind::handled || one.what == kind::sent || one.what == kind::arrived;
}

std::string type_of(const recording& run, const event& one) {
  switch (one.what) {
    case kind::handled:
    case kind::sent:
    case kind::arrived:
      return run.type_name(one.type);
    case kind::drop:
      return std::string(name_of(static_cast<drop_reason>(one.aux)));
    case kind::range:
    case kind::checkpoint:
      return std::string(name_of(static_cast<range_name>(one.type)));
    case kind::metric:
      return std::string(name_of(static_cast<metric_name>(one.type)));
    default:
      return "";
  }
}

boost::json::object event_json(const recording& run, const event& one) {
  boost::json::object json = {{"kind", name_of(one.what)},
                              {"begin_ns", one.begin},
                              {"end_ns", one.end},
                              {"step", one.step},
                              {"actor", run.actor_name(one.actor)}};
  if (const std::string type = type_of(run, one); !type.empty()) json["type"] = type;
  if (!is_of_message(one)) return json;
  json["message"] = run.message_name(one.id);
  json["from"] = run.actor_name(sender_of(one.id));
  json["bytes"] = one.bytes;
  json["sent_ns"] = one.sent;
  json["arrived_ns"] = one.arrived;
  return json;
}

}  // namespace troupe::analysis
