#include "page/message_detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "page/message_list.hpp"
#include "page/payload.hpp"
#include "trace/names.hpp"

namespace troupe::page {

namespace {

using trace::event;

constexpr std::size_t shown_most = 100;

/// Back from cause to cause, up to the first that is not recorded; that one is named.
boost::json::array causes_of(const analysis::causality& in, const event& message) {
  boost::json::array causes;
  std::uint64_t id = in.trigger(message);
  while (id != 0 && causes.size() < shown_most) {
    const event* cause = in.handled(id);
    if (cause == nullptr) {
      causes.push_back(
          boost::json::object{{"id", write_id(id)}, {"name", in.run().message_name(id)}, {"kind", "not recorded"}});
      break;
    }
    causes.push_back(row_of(in.run(), *cause));
    if (cause->step < message.step && cause->step != 0) break;  // what led to the step before is its own story
    id = in.trigger(*cause);
  }
  return causes;
}

boost::json::object content_json(const trace::content& what) {
  boost::json::array parts;
  for (const trace::content_part& part : what.parts) parts.push_back(peek(part));
  return {{"fields_digest", fmt::format("{:016x}", what.fields_digest)},
          {"fields_bytes", what.fields.size()},
          {"parts", std::move(parts)}};
}

}  // namespace

boost::json::object message_json(const analysis::causality& in, std::uint64_t id) {
  const trace::recording& run = in.run();
  boost::json::object all{{"id", write_id(id)}, {"name", run.message_name(id)}};
  if (const event* sent = in.sent(id)) all["left_ns"] = sent->begin;
  if (const event* arrived = in.arrived(id)) all["came_ns"] = arrived->begin;
  boost::json::array effects;
  const std::vector<const event*> led_to = in.effects(id);
  for (std::size_t i = 0; i < std::min(led_to.size(), shown_most); ++i) effects.push_back(row_of(run, *led_to[i]));
  all["effects"] = std::move(effects);
  all["effects_count"] = led_to.size();
  const auto content = std::ranges::find(run.contents, id, &trace::content::id);
  if (content != run.contents.end()) all["content"] = content_json(*content);

  const event* message = in.handled(id);
  if (message == nullptr) message = in.arrived(id) != nullptr ? in.arrived(id) : in.sent(id);
  if (message == nullptr) return all;
  if (message->what == trace::kind::handled) all["handled"] = row_of(run, *message);
  all["causes"] = causes_of(in, *message);
  if (message->has(trace::flag::answer)) {
    boost::json::object request{{"id", write_id(message->cause)}, {"name", run.message_name(message->cause)}};
    if (const event* asked = in.handled(message->cause)) request["type"] = run.type_name(asked->type);
    all["answers"] = std::move(request);
  }
  boost::json::array ranges;
  if (message->what == trace::kind::handled)
    for (const event* range : in.ranges_in(*message))
      ranges.push_back(boost::json::object{{"name", trace::name_of(static_cast<trace::range_name>(range->type))},
                                           {"begin_ns", range->begin},
                                           {"end_ns", range->end}});
  all["ranges"] = std::move(ranges);
  return all;
}

}  // namespace troupe::page
