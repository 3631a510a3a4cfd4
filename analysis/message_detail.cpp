#include "analysis/message_detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>

#include "analysis/message_id.hpp"
#include "analysis/message_list.hpp"
#include "analysis/number_at.hpp"
#include "analysis/why.hpp"
#include "protocol/content_reader.hpp"
#include "trace/names.hpp"

namespace troupe::analysis {

namespace {

constexpr std::size_t shown_most = 100;

/// Back from cause to cause; the first that is not recorded is named.
boost::json::array causes_of(const trace::recording& run, const cause_chain& chain) {
  boost::json::array causes;
  for (std::size_t i = 1; i < std::min(chain.hops.size(), shown_most); ++i)
    causes.push_back(row_of(run, *chain.hops[i].message));
  if (chain.missing != 0 && chain.hops.size() < shown_most)
    causes.push_back(boost::json::object{
        {"id", write_id(chain.missing)}, {"message", run.message_name(chain.missing)}, {"kind", "not recorded"}});
  return causes;
}

boost::json::array ranges_of(const causality& in, const trace::event& message) {
  boost::json::array ranges;
  for (const trace::event* range : in.ranges_in(message))
    ranges.push_back(boost::json::object{{"name", trace::name_of(static_cast<trace::range_name>(range->type))},
                                         {"begin_ns", range->begin},
                                         {"end_ns", range->end}});
  return ranges;
}

boost::json::object content_json(const trace::content& what) {
  boost::json::array parts;
  for (const trace::content_part& part : what.parts) parts.push_back(peek(part));
  return {{"fields_digest", fmt::format("{:016x}", what.fields_digest)},
          {"fields_bytes", what.fields.size()},
          {"parts", std::move(parts)}};
}

/// JSON has no NaN and no infinities.
boost::json::value number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

void add_numbers(msg::dtype type, const std::string& bytes, boost::json::object& to) {
  const std::size_t count = bytes.size() / msg::size_of(type);
  constexpr std::size_t shown = 8;
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  double sum = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  std::uint64_t zero = 0;
  boost::json::array first;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = number_at(type, bytes.data(), i);
    if (i < shown) first.push_back(number(x));
    if (std::isnan(x)) {
      ++nan;
      continue;
    }
    if (std::isinf(x)) ++infinite;
    if (x == 0) ++zero;
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  to["numbers"] = count;
  to["nan"] = nan;
  to["inf"] = infinite;
  to["zero"] = zero;
  to["first"] = std::move(first);
  if (count == nan) return;  // nothing to compare
  to["min"] = number(least);
  to["max"] = number(most);
  to["abs_max"] = number(std::max(std::abs(least), std::abs(most)));
  to["mean"] = number(sum / static_cast<double>(count - nan));
}

}  // namespace

boost::json::object message_json(const causality& in, std::uint64_t id) {
  const trace::recording& run = in.run();
  boost::json::object all{{"id", write_id(id)}, {"message", run.message_name(id)}};
  if (const trace::event* sent = in.sent(id)) all["left_ns"] = sent->begin;
  if (const trace::event* arrived = in.arrived(id)) all["came_ns"] = arrived->begin;
  boost::json::array effects;
  const std::vector<const trace::event*> led_to = in.effects(id);
  for (std::size_t i = 0; i < std::min(led_to.size(), shown_most); ++i) effects.push_back(row_of(run, *led_to[i]));
  all["effects"] = std::move(effects);
  all["effects_count"] = led_to.size();
  const auto held = std::ranges::find(run.contents, id, &trace::content::id);
  if (held != run.contents.end()) all["content"] = content_json(*held);

  const cause_chain chain = find_causes(in, id);
  if (chain.hops.empty()) return all;
  const trace::event& message = *chain.hops.front().message;
  all["causes"] = causes_of(run, chain);
  if (message.has(flag::answer)) {
    boost::json::object request{{"id", write_id(message.cause)}, {"message", run.message_name(message.cause)}};
    if (const trace::event* asked = in.handled(message.cause)) request["type"] = run.type_name(asked->type);
    all["answers"] = std::move(request);
  }
  if (message.what != trace::kind::handled) return all;
  all["handled"] = row_of(run, message);
  all["ranges"] = ranges_of(in, message);
  return all;
}

boost::json::object peek(const trace::content_part& part) {
  boost::json::object what{{"name", part.name},
                           {"type", part.type},
                           {"rows", part.rows},
                           {"cols", part.cols},
                           {"digest", fmt::format("{:016x}", part.digest)},
                           {"has_bytes", !part.bytes.empty()}};
  if (part.bytes.empty()) return what;
  what["bytes"] = part.bytes.size();
  if (const auto type = protocol::dtype_named(part.type)) add_numbers(*type, part.bytes, what);
  return what;
}

}  // namespace troupe::analysis
