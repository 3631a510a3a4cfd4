// A recording as analyses read it: under the names that it has in trace/, its events by kind, parts of it, and single
// records as JSON.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/range/adaptor/filtered.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/record/recording.hpp"

namespace troupe::analysis {

using namespace trace;

/// The view of the events of these kinds, as in `run.events | of_kind(trace::kind::sent)`. Uses Boost, because clang
/// 14, which builds the fuzz targets, cannot compile libstdc++'s views.
auto of_kind(std::same_as<trace::kind> auto... kinds) {
  return boost::adaptors::filtered([=](const trace::event& one) { return ((one.what == kinds) || ...); });
}

/// The events that overlap the time from `begin` to `end`, with the recording's processes, actors and types.
trace::recording part_of(const trace::recording& of, trace::nanoseconds begin, trace::nanoseconds end);

/// The last `most` events by begin, with the recording's processes, actors and types.
trace::recording newest_of(const trace::recording& of, std::size_t most);

/// Returns the text for `key` in `from`, a process's metadata; empty without one.
std::string text_at(const boost::json::object& from, std::string_view key);

/// Adds a line to the findings of an analysis.
template <class... T>
void add_line(std::vector<std::string>& to, fmt::format_string<T...> form, T&&... values) {
  to.push_back(fmt::format(form, std::forward<T>(values)...));
}

/// Whether the record is of a message that was handled, sent or arrived.
bool is_of_message(const trace::event& one);

/// The work in a record of kind range or checkpoint.
inline trace::range_name range_of(const trace::event& one) { return static_cast<trace::range_name>(one.type); }

/// Whether it is a server's record of an optimizer step that it applied.
inline bool is_apply(const trace::event& one) {
  return one.what == trace::kind::range && range_of(one) == trace::range_name::apply;
}

/// Whether all processes ended as they should.
inline bool has_ended_cleanly(const trace::recording& run) {
  return std::ranges::all_of(run.processes, [](const auto& one) { return one.end == trace::ending::clean; });
}

/// The sum of a count over all processes, as in `total(run, &trace::process_info::overwritten)`.
inline std::uint64_t total(const trace::recording& run, std::uint64_t trace::process_info::*count) {
  std::uint64_t sum = 0;
  for (const trace::process_info& one : run.processes) sum += one.*count;
  return sum;
}

/// Whether it is a server, a trainer or the master.
inline bool is_main_actor(const trace::actor_state& one) {
  return one.name == "master" || one.name.starts_with("server ") || one.name.starts_with("trainer ");
}

/// A message's type, the name of a range or a metric, or the reason why a message was dropped; empty for other kinds.
std::string type_of(const trace::recording& run, const trace::event& one);

/// Fields: kind, begin_ns, end_ns, step, actor; type unless `type_of` is empty; for a message also message, from,
/// bytes, sent_ns and arrived_ns.
boost::json::object event_json(const trace::recording& run, const trace::event& one);

}  // namespace troupe::analysis
