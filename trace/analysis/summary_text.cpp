// A summary as text and as JSON.

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>

#include <algorithm>

#include "base/units.hpp"
#include "trace/analysis/summary.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

/// A dropped message need not be of the run, and then has no id.
std::string name_of(const trace::recording& run, std::uint64_t id) { return id == 0 ? "-" : run.message_name(id); }

std::string how_it_ended(trace::ending end) {
  return end == trace::ending::clean ? "ended" : end == trace::ending::failed ? "failed" : "no end recorded";
}

std::vector<const step_window*> slowest_first(const step_windows& steps) {
  std::vector<const step_window*> all;
  for (const step_window& one : steps.whole) all.push_back(&one);
  std::ranges::stable_sort(all, std::ranges::greater{}, &step_window::duration);
  return all;
}

/// The actor that committed last.
std::uint16_t last_of(const step_window& step) {
  return std::ranges::max_element(step.commits, {}, &step_window::commit::when)->actor;
}

std::string processes_text(const trace::recording& run) {
  table rows({"process", "host", "pid", "records", "overwritten", "filtered", "torn", "contents lost", "clock", "end"},
             "rlrrrrrrrl");
  for (std::size_t i = 0; i < run.processes.size(); ++i) {
    const trace::process_info& one = run.processes[i];
    rows.add({std::to_string(i), one.host, std::to_string(one.pid), count_text(one.records),
              count_text(one.overwritten), count_text(one.dropped), count_text(one.torn), count_text(one.contents_lost),
              one.clock_aligned ? "+-" + time_text(one.clock_error) : "not aligned", how_it_ended(one.end)});
  }
  return "\nProcesses\n" + rows.text();
}

std::string attempts_text(const trace::recording& run) {
  if (run.attempts.empty() || (run.attempts.size() == 1 && run.attempts.front().number == 1)) return "";
  table rows({"attempt", "run", "from step", "last step", "", "ended by"}, "rrrrll");
  for (const trace::attempt_info& one : run.attempts)
    rows.add({std::to_string(one.number), std::to_string(one.run), one.from_step ? count_text(*one.from_step) : "-",
              count_text(one.last_step), one.run == run.run ? "this one" : "", one.ended.empty() ? "-" : one.ended});
  return "\nAttempts at this run\n" + rows.text();
}

std::string stalls_text(const trace::recording& run, const summary& what) {
  if (what.stalls.empty()) return "";
  table rows({"process", "host", "pid", "times", "in all", "of the time", "longest"}, "rlrrrrr");
  for (const stall_summary& one : what.stalls) {
    const trace::process_info& process = run.processes[one.process];
    rows.add({std::to_string(one.process), process.host, std::to_string(process.pid), count_text(one.times),
              time_text(one.sum), share_text(one.sum, what.end - what.begin), time_text(one.longest)});
  }
  return "\nNot running: stopped, frozen, or without a core\n" + rows.text();
}

std::string actors_text(const trace::recording& run, const summary& what, std::size_t limit) {
  table rows({"actor", "process", "handled", "working", "of the time", "queued", "longest", "message"}, "lrrrrrrl");
  for (const actor_summary& one : what.actors) {
    const trace::actor_state* known = run.find_actor(one.actor);
    rows.add({run.actor_name(one.actor), known == nullptr ? "-" : std::to_string(known->process),
              count_text(one.handled), time_text(one.working), share_text(one.working, what.end - what.begin),
              time_text(one.queued), one.longest == 0 ? "-" : time_text(one.longest_time),
              one.longest == 0 ? "-" : run.message_name(one.longest)});
  }
  return "\nActors\n" + rows.text(limit);
}

std::string edges_text(const trace::recording& run, const summary& what, std::size_t limit) {
  table rows({"from", "to", "type", "messages", "bytes", "mean wire", "mean queued"}, "lllrrrr");
  for (const edge_summary& one : what.edges) {
    const auto messages = static_cast<trace::nanoseconds>(one.messages);
    rows.add({run.actor_name(one.sender), run.actor_name(one.receiver), run.type_name(one.type),
              count_text(one.messages), size_text(one.bytes), time_text(one.wire / messages),
              time_text(one.queued / messages)});
  }
  return "\nMessages by edge\n" + rows.text(limit);
}

std::string steps_text(const trace::recording& run, const summary& what, std::size_t limit) {
  table rows({"step", "time", "last", "began at"}, "rrlr");
  for (const step_window* one : slowest_first(what.steps))
    rows.add(
        {std::to_string(one->step), time_text(one->duration()), run.actor_name(last_of(*one)), time_text(one->begin)});
  const std::string kind_of_step = what.steps.common ? "commit to commit" : "each trainer's own: no common commit";
  return fmt::format("\nSlowest of {} whole steps ({}; {} incomplete)\n", count_text(what.steps.whole.size()),
                     kind_of_step, count_text(what.steps.incomplete)) +
         rows.text(limit);
}

std::string trouble_text(const trace::recording& run, const summary& what, std::size_t limit) {
  std::string text;
  if (!what.lost.empty()) {
    table rows({"message", "type", "to", "at", "why"}, "lllrl");
    for (const lost_message& one : what.lost)
      rows.add(
          {name_of(run, one.id), run.type_name(one.type), run.actor_name(one.receiver), time_text(one.when), one.why});
    text += fmt::format("\n{} messages came to nothing\n", count_text(what.lost.size())) + rows.text(limit);
  }
  if (!what.unanswered.empty()) {
    table rows({"request", "type", "of", "step", "since"}, "lllrr");
    for (const trace::actor_state::request& one : what.unanswered)
      rows.add({run.message_name(one.id), run.type_name(one.type), run.actor_name(one.peer), std::to_string(one.step),
                time_text(one.since)});
    text += fmt::format("\n{} requests without an answer\n", count_text(what.unanswered.size())) + rows.text(limit);
  }
  return text;
}

}  // namespace

std::string summary_text(const causality& of, const summary& what, std::size_t limit) {
  const trace::recording& run = of.run();
  return fmt::format("{} messages, {}, of {} actors in {} process{}, in {}\n", count_text(what.messages),
                     size_text(what.bytes), what.actors.size(), run.processes.size(),
                     run.processes.size() == 1 ? "" : "es", time_text(what.end - what.begin)) +
         trouble_text(run, what, limit) + attempts_text(run) + processes_text(run) + stalls_text(run, what) +
         actors_text(run, what, limit) + device_use_text(run, what.devices, what.end - what.begin, limit) +
         pipeline_text(run, what.pipeline, limit) + steps_text(run, what, limit) + edges_text(run, what, limit);
}

boost::json::array attempts_json(const trace::recording& run) {
  boost::json::array all;
  for (const trace::attempt_info& one : run.attempts)
    all.push_back({{"attempt", one.number},
                   {"run", std::to_string(one.run)},
                   {"from_step", one.from_step ? boost::json::value(*one.from_step) : boost::json::value()},
                   {"last_step", one.last_step},
                   {"goodput", trace::goodput(one)},
                   {"ended_by", one.ended}});
  return all;
}

boost::json::array processes_json(const trace::recording& run) {
  boost::json::array all;
  for (const trace::process_info& one : run.processes)
    all.push_back({{"host", one.host},
                   {"pid", one.pid},
                   {"node", one.node},
                   {"end", how_it_ended(one.end)},
                   {"records", one.records},
                   {"overwritten", one.overwritten},
                   {"filtered", one.dropped},
                   {"torn", one.torn},
                   {"contents_lost", one.contents_lost},
                   {"clock_aligned", one.clock_aligned},
                   {"clock_offset_ns", one.clock_offset},
                   {"clock_error_ns", one.clock_error}});
  return all;
}

boost::json::object edge_json(const trace::recording& run, const edge_summary& one) {
  return {{"from", run.actor_name(one.sender)},
          {"to", run.actor_name(one.receiver)},
          {"type", run.type_name(one.type)},
          {"messages", one.messages},
          {"bytes", one.bytes},
          {"wire_ns", one.wire},
          {"queued_ns", one.queued}};
}

namespace {

boost::json::array actors_json(const trace::recording& run, const summary& what) {
  boost::json::array actors;
  for (const actor_summary& one : what.actors) {
    const trace::actor_state* known = run.find_actor(one.actor);
    actors.push_back({{"actor", run.actor_name(one.actor)},
                      {"process", known == nullptr ? boost::json::value() : boost::json::value(known->process)},
                      {"alive", known != nullptr && known->alive},
                      {"handled", one.handled},
                      {"working_ns", one.working},
                      {"queued_ns", one.queued},
                      {"longest_message",
                       one.longest == 0 ? boost::json::value() : boost::json::value(run.message_name(one.longest))},
                      {"longest_ns", one.longest_time}});
  }
  return actors;
}

boost::json::array lost_json(const trace::recording& run, const summary& what) {
  boost::json::array lost;
  for (const lost_message& one : what.lost)
    lost.push_back({{"message", name_of(run, one.id)},
                    {"type", run.type_name(one.type)},
                    {"to", run.actor_name(one.receiver)},
                    {"at_ns", one.when},
                    {"why", one.why}});
  return lost;
}

boost::json::array unanswered_json(const trace::recording& run, const summary& what) {
  boost::json::array unanswered;
  for (const trace::actor_state::request& one : what.unanswered)
    unanswered.push_back({{"message", run.message_name(one.id)},
                          {"type", run.type_name(one.type)},
                          {"to", run.actor_name(one.peer)},
                          {"step", one.step},
                          {"since_ns", one.since}});
  return unanswered;
}

}  // namespace

boost::json::object summary_json(const causality& of, const summary& what) {
  const trace::recording& run = of.run();
  boost::json::array edges;
  for (const edge_summary& one : what.edges) edges.push_back(edge_json(run, one));
  boost::json::array stalls;
  for (const stall_summary& one : what.stalls)
    stalls.push_back(
        {{"process", one.process}, {"times", one.times}, {"time_ns", one.sum}, {"longest_ns", one.longest}});
  boost::json::array steps;
  for (const step_window* one : slowest_first(what.steps))
    steps.push_back({{"step", one->step},
                     {"time_ns", one->duration()},
                     {"begin_ns", one->begin},
                     {"last", run.actor_name(last_of(*one))}});
  boost::json::object all = {{"run", std::to_string(run.run)},
                             {"begin_ns", what.begin},
                             {"end_ns", what.end},
                             {"messages", what.messages},
                             {"bytes", what.bytes},
                             {"processes", processes_json(run)},
                             {"actors", actors_json(run, what)},
                             {"edges", edges},
                             {"stalls", stalls},
                             {"device_work", device_work_json(run, what.devices)},
                             {"devices", devices_json(what.devices, what.end - what.begin)},
                             {"common_commits", what.steps.common},
                             {"steps", steps},
                             {"incomplete_steps", what.steps.incomplete},
                             {"lost", lost_json(run, what)},
                             {"unanswered", unanswered_json(run, what)},
                             {"warnings", boost::json::value_from(run.warnings)}};
  if (!run.attempts.empty()) all["attempts"] = attempts_json(run);
  if (!what.pipeline.stages.empty()) all["pipeline"] = pipeline_json(run, what.pipeline);
  return all;
}

}  // namespace troupe::analysis
