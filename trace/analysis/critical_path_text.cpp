// Critical paths as text and as JSON.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/json/array.hpp>

#include <array>

#include "base/units.hpp"
#include "trace/analysis/critical_path.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

/// A part with a smaller share of a step counts as other in its line.
constexpr double least_share = 0.01;

/// All times of a line have the unit of its first.
struct unit {
  const char* name;
  double size;

  explicit unit(trace::nanoseconds whole)
      : name(whole < 1'000'000 ? "us" : "ms"), size(whole < 1'000'000 ? 1e3 : 1e6) {}
  std::string text(trace::nanoseconds time) const { return fmt::format("{:.1f}", static_cast<double>(time) / size); }
};

std::string contribution_text(const trace::recording& run, const contribution& part, const unit& in) {
  std::string text = fmt::format("{} {} ({}", what_text(run, part.what), in.text(part.time), who_text(run, part.what));
  if (part.queued == part.time) return text + " queue)";
  if (part.queued > 0) text += fmt::format(" queue {}", in.text(part.queued));
  return text + ")";
}

/// The step, and its trainer if trainers do not commit together.
std::string step_text(const trace::recording& run, const step_window& window, bool common) {
  return common ? fmt::format("step {}", window.step)
                : fmt::format("step {} of {}", window.step, run.actor_name(window.commits.front().actor));
}

std::string chain_text(const trace::recording& run, const step_path& path, std::size_t limit) {
  table rows({"at", "time", "what", "who", "message"}, "rrlll");
  for (const path_segment& one : path.chain) {
    std::string message = one.id == 0 ? "" : run.message_name(one.id);
    if (one.queued != 0) message += fmt::format(", with {} in the queue", run.message_name(one.queued));
    rows.add({time_text(one.begin - path.window.begin), time_text(one.duration()), what_text(run, one.what),
              who_text(run, one.what), message});
  }
  return "\nThe chain\n" + rows.text(limit);
}

std::string actors_text(const trace::recording& run, const step_study& study, std::size_t limit) {
  table rows({"actor", "working", "longest", "", "could take longer by"}, "lrrlr");
  for (const auto& [actor, one] : study.actors)
    rows.add({run.actor_name(actor), time_text(one.working), time_text(one.longest_time), what_text(run, one.longest),
              one.slack ? time_text(*one.slack) : "unbounded"});
  return "\nSlack: by how much longer each actor's longest work could take without moving the commit\n" +
         rows.text(limit);
}

std::string what_if_text(const trace::recording& run, const step_study& study) {
  if (!study.halved) return "";
  const auto& [what, time, largest] = *study.halved;
  std::string text = fmt::format("\nIf {} ({}) took half its time, the step would take {}", what_text(run, what),
                                 who_text(run, what), time_text(time));
  if (largest)
    text += fmt::format("; {} ({}) would {} the largest part, with {}", what_text(run, largest->what),
                        who_text(run, largest->what), largest->what == what ? "still be" : "become",
                        time_text(largest->time));
  return text + ".\n";
}

std::string statistics_text(const trace::recording& run, const path_report& report, std::size_t limit) {
  const path_statistics& all = *report.statistics;
  table rows({"what", "who", "p50", "p95", "share", "on the path in", "largest in"}, "llrrrrr");
  for (const path_statistics::part& part : all.parts)
    rows.add({what_text(run, part.what), who_text(run, part.what), time_text(part.p50), time_text(part.p95),
              share_text(part.sum, all.sum), count_text(part.steps), count_text(part.largest)});
  return fmt::format(
             "\nAll {} whole steps: p50 {}, p95 {}{}\n", count_text(all.steps), time_text(all.p50), time_text(all.p95),
             report.incomplete == 0 ? "" : fmt::format(" ({} incomplete left out)", count_text(report.incomplete))) +
         rows.text(limit);
}

boost::json::object path_part_json(const trace::recording& run, const path_part& what) {
  constexpr std::array<const char*, 6> kinds = {"work", "wire", "wait", "idle", "not running", "on device"};
  boost::json::object json = {{"kind", kinds[static_cast<std::size_t>(what.what)]},
                              {"what", what_text(run, what)},
                              {"actor", run.actor_name(what.actor)}};
  if (what.what == path_category::wire) json["from"] = run.actor_name(what.peer);
  return json;
}

boost::json::object contribution_json(const trace::recording& run, const contribution& part) {
  boost::json::object json = path_part_json(run, part.what);
  json["time_ns"] = part.time;
  json["queued_ns"] = part.queued;
  return json;
}

boost::json::object path_json(const trace::recording& run, const step_path& path, bool common) {
  boost::json::object json = {{"step", path.window.step},
                              {"begin_ns", path.window.begin},
                              {"time_ns", path.window.duration()},
                              {"text", path_line(run, path, common)}};
  if (!common) json["trainer"] = run.actor_name(path.window.commits.front().actor);
  boost::json::array parts;
  for (const contribution& part : path.parts) parts.push_back(contribution_json(run, part));
  json["parts"] = parts;
  return json;
}

}  // namespace

std::string path_line(const trace::recording& run, const step_path& path, bool common) {
  const trace::nanoseconds whole = path.window.duration();
  const unit in(whole);
  trace::nanoseconds rest = 0;
  std::vector<std::string> parts;
  for (const contribution& part : path.parts)
    if (static_cast<double>(part.time) < least_share * static_cast<double>(whole))
      rest += part.time;
    else
      parts.push_back(contribution_text(run, part, in));
  if (rest > 0) parts.push_back(in.text(rest) + " other");
  return fmt::format("{}: {} {} = {}", step_text(run, path.window, common), in.text(whole), in.name,
                     fmt::join(parts, " + "));
}

boost::json::object study_json(const trace::recording& run, const step_study& study, bool common) {
  boost::json::object json = path_json(run, study.path, common);
  boost::json::array chain;
  for (const path_segment& one : study.path.chain) {
    boost::json::object segment = path_part_json(run, one.what);
    segment["begin_ns"] = one.begin;
    segment["time_ns"] = one.duration();
    if (one.id != 0) segment["message"] = run.message_name(one.id);
    if (one.queued != 0) segment["queued"] = run.message_name(one.queued);
    chain.push_back(segment);
  }
  json["chain"] = chain;
  boost::json::array actors;
  for (const auto& [actor, one] : study.actors)
    actors.push_back({{"actor", run.actor_name(actor)},
                      {"working_ns", one.working},
                      {"longest", what_text(run, one.longest)},
                      {"longest_ns", one.longest_time},
                      {"slack_ns", one.slack ? boost::json::value(*one.slack) : boost::json::value()}});
  json["actors"] = actors;
  if (study.halved) {
    boost::json::object halved = {{"of", path_part_json(run, study.halved->what)}, {"time_ns", study.halved->time}};
    if (study.halved->largest) halved["largest"] = contribution_json(run, *study.halved->largest);
    json["if_halved"] = halved;
  }
  return json;
}

boost::json::object statistics_json(const trace::recording& run, const path_statistics& all) {
  boost::json::array parts;
  for (const path_statistics::part& part : all.parts) {
    boost::json::object json = path_part_json(run, part.what);
    json["p50_ns"] = part.p50;
    json["p95_ns"] = part.p95;
    json["sum_ns"] = part.sum;
    json["steps"] = part.steps;
    json["largest_in"] = part.largest;
    parts.push_back(json);
  }
  return {{"steps", all.steps}, {"p50_ns", all.p50}, {"p95_ns", all.p95}, {"sum_ns", all.sum}, {"parts", parts}};
}

std::string report_text(const trace::recording& run, const path_report& report, std::size_t limit) {
  std::string text;
  if (!report.common)
    text += "Trainers have no common commit in this run: a step is from the end of a trainer's last one to its own.\n";
  for (const step_study& study : report.studies)
    text += path_line(run, study.path, report.common) + "\n" + what_if_text(run, study) +
            chain_text(run, study.path, limit) + actors_text(run, study, limit);
  return report.statistics ? text + statistics_text(run, report, limit) : text;
}

boost::json::object report_json(const trace::recording& run, const path_report& report) {
  boost::json::array studies;
  for (const step_study& study : report.studies) studies.push_back(study_json(run, study, report.common));
  boost::json::object json = {
      {"common_commits", report.common}, {"incomplete_steps", report.incomplete}, {"studied", studies}};
  if (report.statistics) {
    boost::json::array steps;
    for (const step_path& path : report.paths) steps.push_back(path_json(run, path, report.common));
    json["steps"] = steps;
    json["statistics"] = statistics_json(run, *report.statistics);
  }
  return json;
}

}  // namespace troupe::analysis
