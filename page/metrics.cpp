#include "page/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "trace/analysis/overview.hpp"
#include "trace/analysis/summary.hpp"

namespace troupe::page {

namespace {

using trace::event;
using trace::kind;
using trace::nanoseconds;

double seconds(nanoseconds x) { return static_cast<double>(x) / 1e9; }

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    c == '\n' ? escaped += "\\n" : escaped += c;
  }
  return escaped;
}

/// Builds the text of metrics, each with its help and type.
class exposition {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Number>
  void add(Number value, std::initializer_list<std::pair<std::string_view, std::string_view>> labels = {}) {
    text_ += name_;
    char separator = '{';
    for (const auto& [label, of] : labels) {
      text_ += separator;
      text_ += fmt::format("{}=\"{}\"", label, label_value(of));
      separator = ',';
    }
    if (labels.size() > 0) text_ += '}';
    text_ += fmt::format(" {}\n", value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

void add_totals(const trace::recording& of, const totals& sums, exposition& to) {
  const auto by_type = [&](const char* name, const char* help, const auto& value) {
    to.begin(name, "counter", help);
    for (const auto& [key, sum] : sums.messages())
      to.add(value(sum), {{"actor", of.actor_name(key.first)}, {"type", of.type_name(key.second)}});
  };
  by_type("troupe_messages_handled_total", "Messages that an actor has handled.",
          [](const totals::sum& x) { return x.messages; });
  by_type("troupe_message_bytes_total", "Bytes of the messages that an actor has handled.",
          [](const totals::sum& x) { return x.bytes; });
  by_type("troupe_message_latency_seconds_total", "Time from a message's sending to its having been handled, summed.",
          [](const totals::sum& x) { return seconds(x.latency); });
  by_type("troupe_message_queued_seconds_total", "Time from a message's arrival to its being taken up, summed.",
          [](const totals::sum& x) { return seconds(x.queued); });
  to.begin("troupe_actor_working_seconds_total", "counter", "Time that an actor worked.");
  for (const auto& [actor, time] : sums.worked()) to.add(seconds(time), {{"actor", of.actor_name(actor)}});
  to.begin("troupe_steps_total", "counter", "Steps that a trainer has ended.");
  for (const auto& [actor, sum] : sums.steps()) to.add(sum.messages, {{"actor", of.actor_name(actor)}});
  to.begin("troupe_step_seconds_total", "counter", "Time of a trainer's steps, summed.");
  for (const auto& [actor, sum] : sums.steps()) to.add(seconds(sum.latency), {{"actor", of.actor_name(actor)}});
}

void add_attempts(const trace::recording& what, exposition& to) {
  const trace::attempt_info* now = what.attempt();
  if (now == nullptr) return;  // the run is not supervised
  to.begin("troupe_attempts", "gauge", "Attempts at the run, the one under way among them.");
  to.add(now->number);
  to.begin("troupe_goodput_ratio", "gauge",
           "The share of the steps of all attempts that did not have to be done again.");
  to.add(trace::goodput(*now));
}

void add_board(const trace::recording& what, exposition& to) {
  const auto by_actor = [&](const char* name, const char* type, const char* help, const auto& value) {
    to.begin(name, type, help);
    for (const trace::actor_state& one : what.actors) to.add(value(one), {{"actor", one.name}});
  };
  by_actor("troupe_actor_messages_total", "counter", "Messages that an actor has handled since it began.",
           [](const trace::actor_state& x) { return x.handled; });
  by_actor("troupe_actor_alive", "gauge", "Whether an actor is there.",
           [](const trace::actor_state& x) { return x.alive ? 1 : 0; });
  by_actor("troupe_actor_step", "gauge", "The step that an actor is at.",
           [](const trace::actor_state& x) { return x.step; });
  by_actor("troupe_actor_open_requests", "gauge", "Requests of an actor that have not been answered yet.",
           [](const trace::actor_state& x) { return x.open.size() + x.open_more; });
  by_actor("troupe_actor_handling_seconds", "gauge", "For how long an actor has been at what it does; 0 if it is idle.",
           [&what](const trace::actor_state& x) {
             return x.message_begin < 0 || !x.alive ? 0
                                                    : seconds(std::max<nanoseconds>(0, what.end() - x.message_begin));
           });
  to.begin("troupe_queue_depth", "gauge",
           "Messages that waited for an actor, on average over the last second recorded.");
  constexpr nanoseconds recent = 1'000'000'000;
  const nanoseconds since = what.end() - std::min(recent, what.end());
  for (const analysis::actor_summary& one : analysis::summarize_actors(what, since))
    to.add(seconds(one.queued) / std::max(1e-9, seconds(what.end() - since)), {{"actor", what.actor_name(one.actor)}});
}

void add_metrics(const trace::recording& what, exposition& to) {
  const std::map<trace::metric_name, double> last = analysis::last_figures(what);
  constexpr std::pair<trace::metric_name, std::pair<const char*, const char*>> known[] = {
      {trace::metric_name::loss, {"troupe_loss", "The last loss of the run."}},
      {trace::metric_name::auc, {"troupe_auc", "The last area under the curve."}},
      {trace::metric_name::accuracy, {"troupe_accuracy", "The last accuracy."}},
      {trace::metric_name::test_loss, {"troupe_test_loss", "The last mean loss of the test rows."}},
      {trace::metric_name::rmse, {"troupe_rmse", "The last root mean square error of the test rows."}},
      {trace::metric_name::samples_per_s, {"troupe_samples_per_second", "Samples of all trainers a second."}},
      {trace::metric_name::staleness,
       {"troupe_staleness_steps", "Optimizer steps that rows lacked, as last reported."}}};
  for (const auto& [metric, text] : known)
    if (const auto value = last.find(metric); value != last.end()) {
      to.begin(text.first, "gauge", text.second);
      to.add(value->second);
    }
  const auto is_given = [](const auto& one) {
    return static_cast<std::uint16_t>(one.first) >= trace::given_names_begin;
  };
  if (std::ranges::none_of(last, is_given)) return;
  to.begin("troupe_metric", "gauge", "The last value of a metric that the program has added.");
  for (const auto& one : last)
    if (is_given(one)) to.add(one.second, {{"name", what.metric_text(one.first)}});
}

void add_processes(const trace::recording& what, exposition& to) {
  const auto by_process = [&](const char* name, const char* help, const auto& value) {
    to.begin(name, "counter", help);
    for (const trace::process_info& one : what.processes)
      to.add(value(one), {{"host", one.host}, {"pid", std::to_string(one.pid)}, {"node", std::to_string(one.node)}});
  };
  by_process("troupe_records_total", "Records that a process has written.",
             [](const trace::process_info& x) { return x.records + x.overwritten; });
  by_process("troupe_records_overwritten_total", "Records that newer ones have replaced.",
             [](const trace::process_info& x) { return x.overwritten; });
  by_process("troupe_records_filtered_total", "Records that were not wanted.",
             [](const trace::process_info& x) { return x.dropped; });
  by_process("troupe_records_lost_total", "Records that were torn, and contents that there was no room for.",
             [](const trace::process_info& x) { return x.torn + x.contents_lost; });
}

}  // namespace

void totals::add(const trace::recording& of) {
  if (of.run != run_) *this = totals();
  run_ = of.run;
  std::map<std::uint16_t, nanoseconds> newest;
  for (const event& e : of.events) {
    if (e.what != kind::handled && e.what != kind::range && e.what != kind::step) continue;
    mark& seen = marks_[e.actor];
    if (e.end <= seen.counted) continue;
    nanoseconds& last = newest[e.actor];
    last = std::max(last, e.end);
    if (e.what == kind::step) {
      sum& to = steps_[e.actor];
      ++to.messages;
      to.latency += e.end - e.begin;
      continue;
    }
    worked_[e.actor] += std::max<nanoseconds>(0, e.end - std::max(e.begin, seen.busy_until));
    seen.busy_until = std::max(seen.busy_until, e.end);
    if (e.what != kind::handled) continue;
    sum& to = sums_[{e.actor, e.type}];
    ++to.messages;
    to.bytes += e.bytes;
    to.latency += e.end - e.sent;
    to.queued += e.begin - e.arrived;
  }
  for (const auto& [actor, last] : newest) marks_[actor].counted = last;
}

std::string metrics_text(const reading& of, const totals& sums) {
  exposition to;
  to.begin("troupe_up", "gauge", "Whether the run is under way.");
  to.add(of.live ? 1 : 0);
  to.begin("troupe_trace_readable", "gauge", "Whether the newest of the run could be read.");
  to.add(of.what && of.problem.empty() ? 1 : 0);
  if (!of.what) return to.take();
  add_attempts(*of.what, to);
  add_totals(*of.what, sums, to);
  add_board(*of.what, to);
  add_metrics(*of.what, to);
  add_processes(*of.what, to);
  return to.take();
}

}  // namespace troupe::page
