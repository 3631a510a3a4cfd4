#include "trace/analysis/exports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/json_text.hpp"
#include "base/lossless_json.hpp"
#include "base/units.hpp"
#include "trace/analysis/causality.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/trace_events.hpp"
#include "trace/analysis/training_order.hpp"
#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

struct interval {
  trace::nanoseconds begin = 0;
  trace::nanoseconds end = 0;
};

auto slices_of(const trace::recording& run) {
  return run.events | of_kind(trace::kind::handled, trace::kind::range, trace::kind::timer, trace::kind::checkpoint);
}

class timeline {
 public:
  timeline(const trace::recording& run, std::ostream& to) : run_(run), index_(run), out_(to) {
    for (const trace::actor_state& actor : run.actors) process_of_.emplace(actor.actor, actor.process);
    for (const trace::event& one : slices_of(run)) process_of_.emplace(one.actor, one.process);
  }

  timeline_counts write() {
    name_tracks();
    write_slices();
    write_device_work();
    write_flows();
    write_others();
    write_counters();
    out_.finish("\"otherData\":" + json_text(other_data()));
    return counts_;
  }

 private:
  /// Numbers start from 1: viewers take 0 for the machine's idle process.
  static track track_of(const trace::event& one) { return {one.process + 1, std::uint32_t{one.actor} + 1}; }
  /// Events of links belong to no actor and are shown on a thread of their own.
  static track links_of(const trace::event& one) { return {one.process + 1, std::uint32_t{UINT16_MAX} + 2}; }

  /// Times when the process did not run also have their own thread.
  static track stalls_of(std::uint32_t process) { return {process + 1, std::uint32_t{UINT16_MAX} + 3}; }

  std::optional<track> track_of(std::uint16_t actor) const {
    const std::uint32_t* process = find_in(process_of_, actor);
    return process == nullptr ? std::nullopt : std::optional(track{*process + 1, std::uint32_t{actor} + 1});
  }

  std::string message_name(std::uint64_t id) {
    if (id == 0) return "null";
    const std::string& sender = names_[trace::sender_of(id)];
    return fmt::format("{} #{}\"", sender.substr(0, sender.size() - 1), trace::sequence_of(id));
  }

  void name_tracks() {
    for (std::uint32_t i = 0; i < run_.processes.size(); ++i) {
      const trace::process_info& one = run_.processes[i];
      out_.process_name(i + 1, json_string(fmt::format("node {} ({}, pid {})", one.node, one.host, one.pid)), one.node);
      if (std::ranges::any_of(run_.events,
                              [i](const trace::event& of) { return of.process == i && is_of_link(of.what); }))
        out_.thread_name({i + 1, std::uint32_t{UINT16_MAX} + 2}, "\"links\"", UINT16_MAX + 2);
      if (!index_.stalls(i).empty()) out_.thread_name(stalls_of(i), "\"not running\"", UINT16_MAX + 3);
    }
    for (const auto& [actor, process] : std::map(process_of_.begin(), process_of_.end()))
      out_.thread_name({process + 1, std::uint32_t{actor} + 1}, names_[actor], actor);
  }

  // -- slices -------------------------------------------------------------------------

  void write_slices() {
    std::map<track, std::vector<const trace::event*>> by_track;
    for (const trace::event& one : slices_of(run_)) by_track[track_of(one)].push_back(&one);
    for (auto& [where, all] : by_track) {
      std::ranges::stable_sort(all, {}, [](const trace::event* one) { return std::pair(one->begin, -one->end); });
      std::vector<interval>& outermost = outermost_[where];
      std::vector<trace::nanoseconds> open;  // ends of the slices around
      for (const trace::event* one : all) {
        while (!open.empty() && open.back() <= one->begin) open.pop_back();
        trace::nanoseconds end = std::max(one->begin, one->end);
        if (open.empty())
          outermost.push_back({one->begin, end});
        else
          end = std::min(end, open.back());
        open.push_back(end);
        write_slice(where, *one, end);
      }
    }
  }

  void write_slice(track where, const trace::event& one, trace::nanoseconds end) {
    ++counts_.slices;
    if (one.what == trace::kind::handled) {
      ++counts_.messages;
      out_.slice(where, types_[one.type], "message", one.begin, end, args_of(one));
      return;
    }
    const std::string what = one.what == trace::kind::timer ? "turn of its own" : run_.range_text(range_of(one));
    out_.slice(where, json_string(what), one.what == trace::kind::checkpoint ? "checkpoint" : "range", one.begin, end,
               fmt::format("\"step\":{}", one.step));
  }

  /// Devices have threads of their own, one for each stream and the actor that it works for.
  void write_device_work() {
    std::uint32_t thread = std::uint32_t{UINT16_MAX} + 4;
    for (const auto& [lane, spans] : index_.device_lanes()) {
      const track where{spans.front()->process + 1, thread++};
      out_.thread_name(where,
                       json_string(fmt::format("{} on device {}{}", run_.actor_name(lane.actor), lane.device,
                                               lane.copies ? ", copies" : "")),
                       lane.actor);
      trace::nanoseconds free = std::numeric_limits<trace::nanoseconds>::min();
      for (const trace::event* one : spans) {
        const trace::nanoseconds begin = std::max(free, one->begin);
        free = std::max(begin, one->end);
        ++counts_.slices;
        out_.slice(where, json_string(run_.range_text(range_of(*one))), "device", begin, free,
                   fmt::format("\"step\":{}", one->step));
      }
    }
  }

  std::string args_of(const trace::event& one) {
    return fmt::format("\"message\":{},\"from\":{},\"cause\":{},\"step\":{},\"bytes\":{},\"queued_us\":{:.3f}",
                       message_name(one.id), names_[trace::sender_of(one.id)], message_name(one.cause), one.step,
                       one.bytes, static_cast<double>(one.begin - one.arrived) / 1e3);
  }

  // -- flows ----------------------------------------------------------------------------

  /// The last moment that viewers count to the slice: its end belongs to the next one, unless it takes no time.
  template <class T>
  static trace::nanoseconds last_moment(const T& slice) {
    return std::max(slice.begin, slice.end - 1);
  }

  /// The latest moment up to `when` within an outermost slice of `where`, or nullopt.
  std::optional<trace::nanoseconds> moment_in_slice(track where, trace::nanoseconds when) const {
    const auto* slices = find_in(outermost_, where);
    if (slices == nullptr) return {};
    const auto after = std::ranges::upper_bound(*slices, when, {}, &interval::begin);
    if (after == slices->begin()) return {};
    return std::min(when, last_moment(*std::prev(after)));
  }

  void write_flows() {
    for (const trace::event& one : run_.events | of_kind(trace::kind::handled)) {
      const trace::event* sending = index_.sent_in(one);
      const auto from = track_of(trace::sender_of(one.id));
      std::optional<trace::nanoseconds> sent;
      if (sending != nullptr && from)
        sent = moment_in_slice(*from, std::min({std::max(one.sent, sending->begin), last_moment(*sending), one.begin}));
      if (!sent || *sent < sending->begin) {
        ++counts_.unbound;
        continue;
      }
      out_.flow(++counts_.flows, *from, *sent, track_of(one), one.begin);
    }
  }

  // -- other events ----------------------------------------------------------------------

  static bool is_of_link(trace::kind what) {
    return what == trace::kind::link_up || what == trace::kind::link_down || what == trace::kind::credit_wait ||
           what == trace::kind::credit;
  }

  void write_others() {
    for (const trace::event& one : run_.events) {
      if (one.what == trace::kind::step) {
        out_.async(track_of(one), fmt::format("\"step {}\"", one.step), "step", ++counts_.asyncs, one.begin, one.end,
                   "");
      } else if (one.what == trace::kind::collective) {
        out_.async(track_of(one), fmt::format("\"collective {}\"", one.id), "collective", ++counts_.asyncs,
                   std::min(one.sent, one.begin), one.end,
                   fmt::format("\"step\":{},\"bucket\":{},\"bytes\":{},\"all_launched_us\":{:.3f}", one.step, one.aux,
                               one.bytes, static_cast<double>(one.begin - one.sent) / 1e3));
      } else if (one.what == trace::kind::stalled) {
        ++counts_.slices;
        out_.slice(stalls_of(one.process), "\"not running\"", "stall", one.begin, one.end, "");
      } else if (const auto args = args_of_instant(one)) {
        ++counts_.instants;
        out_.instant(is_of_link(one.what) ? links_of(one) : track_of(one),
                     fmt::format("\"{}\"", trace::name_of(one.what)), "event", one.begin, *args);
      }
    }
  }

  /// Returns null for an event that is not shown as an instant.
  std::optional<std::string> args_of_instant(const trace::event& one) {
    switch (one.what) {
      case trace::kind::spawn:
        return "";
      case trace::kind::exit:
        return fmt::format("\"error\":{}", one.aux);
      case trace::kind::drop:
        return fmt::format("\"message\":{},\"type\":{},\"why\":\"{}\"", message_name(one.id), types_[one.type],
                           trace::name_of(static_cast<trace::drop_reason>(one.aux)));
      case trace::kind::link_up:
      case trace::kind::link_down:
        return fmt::format("\"node\":{}", one.aux);
      case trace::kind::credit_wait:
        return fmt::format("\"node\":{},\"message\":{},\"bytes_under_way\":{}", one.aux, message_name(one.id), one.raw);
      default:
        return {};
    }
  }

  // -- counters -----------------------------------------------------------------------------

  using changes = std::vector<std::pair<trace::nanoseconds, std::int64_t>>;

  void write_changes(std::uint32_t process, const std::string& name, std::string_view unit, changes& all) {
    std::ranges::sort(all);
    std::int64_t value = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      value += all[i].second;
      if (i + 1 < all.size() && all[i + 1].first == all[i].first) continue;
      out_.counter(process, name, all[i].first, unit, static_cast<double>(value));
      ++counts_.counters;
    }
  }

  void write_counters() {
    std::map<track, changes> queues;
    std::map<std::pair<std::uint32_t, std::uint32_t>, changes> in_flight;
    const auto fly = [&](const trace::event& one, std::uint32_t to, trace::nanoseconds when, std::int64_t sign) {
      const std::uint32_t* from = find_in(process_of_, trace::sender_of(one.id));
      if (from != nullptr && *from != to) in_flight[{*from, to}].emplace_back(when, sign * std::int64_t{one.bytes});
    };
    for (const trace::event& one : run_.events) {
      if (one.what == trace::kind::handled) {
        fly(one, one.process, std::min(one.sent, one.arrived), 1);
        fly(one, one.process, one.arrived, -1);
        if (one.arrived >= one.begin) continue;
        queues[track_of(one)].emplace_back(one.arrived, 1);
        queues[track_of(one)].emplace_back(one.begin, -1);
      } else if (one.what == trace::kind::arrived && index_.handled(one.id) == nullptr) {
        queues[track_of(one)].emplace_back(one.begin, 1);
      } else if (one.what == trace::kind::sent && index_.handled(one.id) == nullptr &&
                 index_.arrived(one.id) == nullptr) {
        if (const std::uint32_t* to = find_in(process_of_, one.aux)) fly(one, *to, one.begin, 1);
      }
      write_figure(one);
    }
    for (auto& [where, all] : queues) {
      const std::string& actor = names_[static_cast<std::uint16_t>(where.thread - 1)];
      write_changes(where.process, "\"queue of " + actor.substr(1), "messages", all);
    }
    for (auto& [ends, all] : in_flight)
      write_changes(ends.first + 1, fmt::format("\"in flight to node {}\"", run_.processes[ends.second].node), "bytes",
                    all);
  }

  /// Values that a record holds: staleness and metrics.
  void write_figure(const trace::event& one) {
    if (one.what == trace::kind::handled && one.type == rows_) {
      out_.counter(one.process + 1, "\"staleness of " + names_[one.actor].substr(1), one.begin, "steps", one.aux);
      ++counts_.counters;
    }
    if (one.what == trace::kind::metric) {
      const auto value = std::bit_cast<double>(one.raw);
      if (!std::isfinite(value)) return;  // not a JSON number
      const auto what = static_cast<trace::metric_name>(one.type);
      const std::string which = run_.metric_text(what);
      out_.counter(one.process + 1, json_string(which), one.begin, what < trace::metric_name::count ? which : "value",
                   value);
      ++counts_.counters;
    }
  }

  boost::json::object other_data() const {
    boost::json::array clocks;
    for (const trace::process_info& one : run_.processes)
      clocks.push_back(boost::json::value(fmt::format(
          "node {}: {}", one.node,
          one.clock_aligned ? fmt::format("within {}", time_text(one.clock_error)) : "not aligned with the others")));
    return {{"run", fmt::format("{:016x}", run_.run)},
            {"clocks", std::move(clocks)},
            {"warnings", boost::json::value_from(run_.warnings)}};
  }

  const trace::recording& run_;
  const causality index_;
  trace_events out_;
  timeline_counts counts_;
  const std::optional<std::uint16_t> rows_ = type_number<msg::rows>(run_);  ///< the type's number
  std::unordered_map<std::uint16_t, std::uint32_t> process_of_;
  by_number<std::string> names_{[this](std::uint16_t actor) { return json_string(run_.actor_name(actor)); }};
  by_number<std::string> types_{[this](std::uint16_t type) { return json_string(run_.type_name(type)); }};
  std::map<track, std::vector<interval>> outermost_;  ///< slices that are not nested in another, by begin
};

}  // namespace

timeline_counts write_timeline(const trace::recording& run, std::ostream& to) { return timeline(run, to).write(); }

}  // namespace troupe::analysis
