// The waits of a run as text and as JSON.

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>

#include "base/units.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

std::string state_of(const trace::recording& run, const wait_edge& one) {
  switch (one.state) {
    case wait_state::queued:
      return one.behind == 0 ? "arrived, not begun" : fmt::format("arrived, queued behind {} messages", one.behind);
    case wait_state::in_hand: {
      const trace::actor_state* on = run.find_actor(one.on);
      return fmt::format("handler running for {}", time_text(run.end() - on->message_begin));
    }
    case wait_state::unsent:
      if (one.call != nullptr && one.call->kind != trace::call_kind::receipt)
        return one.call->lacks_sums != 0 ? "not summed" : "not called";
      return one.collective ? "not launched" : "not sent";
    case wait_state::under_way:
      return "under way";
    case wait_state::never_arrived:
      return one.message == 0 ? "sent, never arrived"
                              : fmt::format("sent, never arrived: {}", run.message_name(one.message));
    case wait_state::out_of_credit:
      return "credits exhausted";
    case wait_state::parked:
      return "parked: to be answered later";
    case wait_state::incomplete:
      return "launched by all, completed by none";
  }
  return "";
}

}  // namespace

std::string_view name_of(blockage what) {
  constexpr std::array<std::string_view, 11> names = {
      "none",       "dead",   "stopped",         "never_arrived", "ranks_missing", "cycle", "credits_exhausted",
      "incomplete", "queued", "handler_running", "idle"};
  return names.at(static_cast<std::size_t>(what));
}

std::string subject_of(const trace::recording& run, const wait_edge& one) {
  const std::string step = one.step == 0 ? "" : fmt::format(" (step {})", one.step);
  if (one.call != nullptr) return title_of(*one.call) + step;
  if (one.is_answer && !one.collective)
    return fmt::format("answer to {} #{}{}", run.type_name(one.type), trace::sequence_of(one.message), step);
  if (one.collective && (one.is_answer || one.state == wait_state::unsent)) {
    const open_collective& c = *one.collective;
    return fmt::format("collective {} (step {}, bucket {})", c.sequence, c.step,
                       c.bucket ? std::to_string(*c.bucket) : "?");
  }
  return one.step == 0 ? run.type_name(one.type) : fmt::format("{} of step {}", run.type_name(one.type), one.step);
}

std::string to_text(const trace::recording& run, const blocked_report& report) {
  std::string text = report.verdict + "\n";
  if (!report.waits.empty()) {
    table rows({"who", "waits for", "from", "for", "state"}, "lllrl");
    for (const wait_edge& one : report.waits)
      rows.add({run.actor_name(one.who), subject_of(run, one), run.actor_name(one.on), time_text(run.end() - one.since),
                state_of(run, one)});
    text += "\n";
    text += rows.text();
  }
  if (!report.details.empty()) text += "\n";
  for (const std::string& line : report.details) text += line + "\n";
  return text;
}

boost::json::object to_json(const trace::recording& run, const blocked_report& report) {
  boost::json::array waits;
  for (const wait_edge& one : report.waits) {
    boost::json::object edge = {{"who", run.actor_name(one.who)},
                                {"on", run.actor_name(one.on)},
                                {"for", subject_of(run, one)},
                                {"state", name_of(one.state)},
                                {"state_text", state_of(run, one)},
                                {"type", run.type_name(one.type)},
                                {"message", nullptr},
                                {"step", one.step},
                                {"since_ns", one.since},
                                {"waiting_ns", run.end() - one.since},
                                {"behind", one.behind}};
    if (one.message != 0) edge["message"] = run.message_name(one.message);
    if (one.collective) {
      edge["communicator"] = one.collective->communicator();
      edge["collective"] = one.collective->sequence;
      edge["missing_ranks"] = boost::json::value_from(one.collective->missing);
    }
    if (one.call != nullptr) {
      edge["call"] = one.call->text.data();
      edge["number"] = one.call->number;
      edge["missing_ranks"] = boost::json::value_from(one.call->missing.ranks());
    }
    waits.push_back(std::move(edge));
  }
  boost::json::array cycle;
  for (const std::uint16_t actor : report.cycle) cycle.push_back(boost::json::value(run.actor_name(actor)));
  boost::json::object all = {{"verdict", report.verdict}, {"class", name_of(report.what)},
                             {"root", nullptr},           {"waits", std::move(waits)},
                             {"cycle", std::move(cycle)}, {"details", boost::json::value_from(report.details)}};
  if (report.root) all["root"] = run.actor_name(*report.root);
  return all;
}

}  // namespace troupe::analysis
