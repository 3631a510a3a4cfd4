#include "trace/analysis/message_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <cctype>
#include <type_traits>

#include "base/number.hpp"
#include "trace/analysis/contents.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/message_id.hpp"
#include "trace/analysis/why.hpp"
#include "trace/record/filter.hpp"
#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

/// The text that is searched for: part of a name, or a message as `3.417` or `trainer 1 #417` or `#417`.
struct wanted_text {
  explicit wanted_text(std::string_view of) : text(of), id(read_id(of)) {
    const auto mark = of.find('#');
    if (mark != std::string_view::npos) sequence = parse_number<std::uint64_t>(of.substr(mark + 1));
    if (!sequence) return;
    text = of.substr(0, mark);
    while (text.ends_with(' ')) text.pop_back();
  }
  std::string text;
  std::optional<std::uint64_t> id;
  std::optional<std::uint64_t> sequence;
};

trace::kind kind_of(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(trace::kind::device_range); ++i)
    if (trace::name_of(static_cast<trace::kind>(i)) == name) return static_cast<trace::kind>(i);
  return trace::kind::none;
}

/// Whether its id is a message's.
bool has_message(const trace::event& e) {
  return is_of_message(e) || e.what == trace::kind::released || e.what == trace::kind::drop ||
         e.what == trace::kind::credit_wait || e.what == trace::kind::collective_launch;
}

/// The sort key, the largest first. A record that is not a message's has only its duration.
std::int64_t rank(const trace::event& e, message_order by) {
  switch (by) {
    case message_order::slowest:
      return e.end - (e.what == trace::kind::handled ? e.sent : e.begin);
    case message_order::largest:
      return e.bytes;
    case message_order::longest_queued:
      return e.what == trace::kind::handled ? e.begin - e.arrived : 0;
    default:
      return 0;
  }
}

class matcher {
 public:
  matcher(const trace::recording& in, const message_query& what)
      : what_(what),
        text_(what.text),
        kind_(kind_of(what.kind)),
        is_actor_([&in, &what](std::uint16_t actor) { return trace::matches(what.actor, in.actor_name(actor)); }),
        is_from_([&in, &what](std::uint16_t actor) { return trace::matches(what.from, in.actor_name(actor)); }),
        is_to_([&in, &what](std::uint16_t actor) { return trace::matches(what.to, in.actor_name(actor)); }),
        is_type_([&in, &what](std::uint16_t type) { return trace::matches(what.type, in.type_name(type)); }),
        has_text_type_([&in, this](std::uint16_t type) { return contains(in.type_name(type), text_.text); }),
        has_text_actor_([&in, this](std::uint16_t actor) { return contains(in.actor_name(actor), text_.text); }) {}
  matcher(const matcher&) = delete;

  bool operator()(const trace::event& e) {
    if (kind_ != trace::kind::none && e.what != kind_) return false;
    if (e.begin > what_.until || e.step < what_.first_step || e.step > what_.last_step) return false;
    if (e.bytes < what_.bytes_least) return false;
    if (what_.latency_least > 0 && rank(e, message_order::slowest) < what_.latency_least) return false;
    const std::uint16_t sender = has_message(e) ? trace::sender_of(e.id) : e.actor;
    if (!what_.actor.empty() && !is_actor_[e.actor] && !is_actor_[sender]) return false;
    if (!what_.from.empty() && !is_from_[sender]) return false;
    if (!what_.to.empty() && !is_to_[e.actor]) return false;
    const bool has_type = is_of_message(e);
    if (!what_.type.empty() && !(has_type && is_type_[e.type])) return false;
    return what_.text.empty() || has_text(e, sender, has_type);
  }

 private:
  bool has_text(const trace::event& e, std::uint16_t sender, bool has_type) {
    if (text_.id) return e.id == *text_.id;
    if (text_.sequence) return trace::sequence_of(e.id) == *text_.sequence && has_text_actor_[sender];
    return has_text_actor_[e.actor] || has_text_actor_[sender] || (has_type && has_text_type_[e.type]);
  }

  const message_query& what_;
  wanted_text text_;
  trace::kind kind_;
  by_number<bool> is_actor_, is_from_, is_to_, is_type_, has_text_type_, has_text_actor_;
};

/// Like `type_of`, but also has a text for records without a type.
std::string text_about(const trace::recording& in, const trace::event& e) {
  switch (e.what) {
    case trace::kind::collective:
      return fmt::format("#{} bucket {}", e.id, e.aux);
    case trace::kind::collective_launch:
      return fmt::format("#{} rank {}", e.cause, e.aux);
    case trace::kind::link_up:
    case trace::kind::link_down:
      return fmt::format("node {}", e.aux);
    case trace::kind::credit:
    case trace::kind::credit_wait:
      return fmt::format("node {}, {} B under way", e.aux, e.raw);
    case trace::kind::exit:
      return e.aux == 0 ? "normally" : fmt::format("error {}", e.aux);
    default:
      return type_of(in, e);
  }
}

constexpr std::size_t shown_most = 100;

/// The causes, nearest first, and at the end the first that is not recorded.
boost::json::array causes_of(const trace::recording& run, const cause_chain& chain) {
  boost::json::array causes;
  for (std::size_t i = 1; i < std::min(chain.hops.size(), shown_most); ++i)
    causes.push_back(row_of(run, *chain.hops[i].message));
  if (chain.missing != 0 && chain.hops.size() < shown_most)
    causes.push_back(boost::json::object{
        {"id", write_id(chain.missing)}, {"message", run.message_name(chain.missing)}, {"kind", "not recorded"}});
  return causes;
}

boost::json::array ranges_of(const trace::recording& run, const causality& in, const trace::event& message) {
  boost::json::array ranges;
  for (const trace::event* range : in.ranges_in(message))
    ranges.push_back(boost::json::object{
        {"name", run.range_text(range_of(*range))}, {"begin_ns", range->begin}, {"end_ns", range->end}});
  return ranges;
}

boost::json::object content_json(const trace::content& what) {
  boost::json::array parts;
  for (const trace::content_part& part : what.parts) parts.push_back(peek(part));
  return {{"fields_digest", fmt::format("{:016x}", what.fields_digest)},
          {"fields_bytes", what.fields.size()},
          {"parts", std::move(parts)}};
}

}  // namespace

result<message_query> message_query::read(const std::map<std::string, std::string>& parameters) {
  message_query what;
  std::string problem;
  const auto text_of = [&](const char* name) {
    const std::string* found = find_in(parameters, name);
    return found == nullptr ? std::string() : *found;
  };
  const auto number = [&](const char* name, auto& value) {
    const std::string given = text_of(name);
    if (given.empty()) return;
    const auto read = parse_number<std::remove_reference_t<decltype(value)>>(given);
    if (!read) problem = fmt::format("{} is '{}', which is not a number", name, given);
    value = read.value_or(value);
  };
  what.actor = text_of("actor");
  what.from = text_of("from");
  what.to = text_of("to");
  what.type = text_of("type");
  what.text = text_of("text");
  if (const auto kind = text_of("kind"); !kind.empty()) what.kind = kind;
  if (what.kind != "all" && kind_of(what.kind) == trace::kind::none)
    problem = fmt::format("unknown kind '{}'", what.kind);
  number("first_step", what.first_step);
  number("last_step", what.last_step);
  number("min_bytes", what.bytes_least);
  number("min_latency_ns", what.latency_least);
  number("until", what.until);
  number("cursor", what.cursor);
  number("limit", what.limit);
  constexpr std::uint64_t limit_most = 1000;
  what.limit = std::min(what.limit, limit_most);
  constexpr std::array<std::string_view, 5> orders = {"newest", "oldest", "slowest", "largest", "queued"};
  if (const auto order = text_of("order"); !order.empty()) {
    const auto found = std::ranges::find(orders, order);
    if (found == orders.end()) problem = fmt::format("unknown order '{}'", order);
    what.order = static_cast<message_order>(found - orders.begin());
  }
  if (!problem.empty()) return bad_input(problem);
  return what;
}

message_page find_messages(const trace::recording& in, const message_query& what) {
  matcher fits(in, what);
  // Rank and index of each event that matches; by time all ranks are 0.
  using ranked = std::pair<std::int64_t, std::uint32_t>;
  std::vector<ranked> all;
  for (std::size_t i = 0; i < in.events.size(); ++i)
    if (fits(in.events[i])) all.emplace_back(-rank(in.events[i], what.order), static_cast<std::uint32_t>(i));
  const std::size_t first = std::min<std::size_t>(what.cursor, all.size());
  const std::size_t last = std::min<std::size_t>(first + what.limit, all.size());
  const auto at = [&all](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
  const bool by_time = what.order == message_order::newest || what.order == message_order::oldest;
  if (!by_time) {  // only the shown rows have to be in order
    if (first < all.size()) std::nth_element(all.begin(), at(first), all.end());
    if (last < all.size()) std::nth_element(at(first), at(last), all.end());
    std::sort(at(first), at(last));
  }
  message_page page;
  page.total = all.size();
  for (std::size_t i = first; i < last; ++i)
    page.events.push_back(what.order == message_order::newest ? all[all.size() - 1 - i].second : all[i].second);
  return page;
}

boost::json::object row_of(const trace::recording& in, const trace::event& e) {
  boost::json::object row = event_json(in, e);
  if (const std::string text = text_about(in, e); !text.empty()) row["type"] = text;
  if (has_message(e)) {
    row["id"] = write_id(e.id);
    row["message"] = in.message_name(e.id);
    row["from"] = in.actor_name(trace::sender_of(e.id));
  }
  if (e.what != trace::kind::handled) return row;
  boost::json::array flags;
  for (const auto& [bit, name] : {std::pair{flag::request, "request"},
                                  {flag::answer, "answer"},
                                  {flag::parked, "parked"},
                                  {flag::refused, "refused"},
                                  {flag::remote, "remote"}})
    if (e.has(bit)) flags.emplace_back(name);
  row["flags"] = std::move(flags);
  return row;
}

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
  all["ranges"] = ranges_of(run, in, message);
  return all;
}

}  // namespace troupe::analysis
