#include "page/step_paths.hpp"

#include <boost/json/array.hpp>

#include "page/message_list.hpp"

namespace troupe::page {

namespace {

boost::json::object named(const trace::recording& of, const analysis::stretch& what) {
  return {{"what", analysis::what_text(of, what)}, {"who", analysis::who_text(of, what)}};
}

boost::json::object contribution_json(const trace::recording& of, const analysis::contribution& one) {
  boost::json::object all = named(of, one.what);
  all["time_ns"] = one.time;
  all["queued_ns"] = one.queued;
  return all;
}

const char* kind_of(analysis::stretch_kind kind) {
  switch (kind) {
    case analysis::stretch_kind::work:
      return "work";
    case analysis::stretch_kind::wire:
      return "wire";
    case analysis::stretch_kind::wait:
      return "wait";
    case analysis::stretch_kind::idle:
      break;
  }
  return "idle";
}

boost::json::array chain_json(const trace::recording& of, const std::vector<analysis::path_segment>& chain) {
  boost::json::array all;
  for (const analysis::path_segment& one : chain) {
    boost::json::object part = named(of, one.what);
    part["kind"] = kind_of(one.what.what);
    part["actor"] = of.actor_name(one.what.actor);
    if (one.what.what == analysis::stretch_kind::wire) part["peer"] = of.actor_name(one.what.peer);
    part["begin_ns"] = one.begin;
    part["end_ns"] = one.end;
    if (one.id != 0) part["id"] = write_id(one.id);
    if (one.queued != 0) part["queued"] = write_id(one.queued);
    all.push_back(std::move(part));
  }
  return all;
}

}  // namespace

boost::json::object path_json(const trace::recording& of, const analysis::step_study& study) {
  boost::json::object all{{"begin_ns", study.path.window.begin},
                          {"time_ns", study.path.window.duration()},
                          {"line", analysis::path_line(of, study.path)},
                          {"chain", chain_json(of, study.path.chain)}};
  boost::json::array parts;
  for (const analysis::contribution& one : study.path.parts) parts.push_back(contribution_json(of, one));
  all["parts"] = std::move(parts);
  boost::json::array actors;
  for (const auto& [number, one] : study.actors) {
    boost::json::object actor{{"actor", of.actor_name(number)}, {"working_ns", one.working}};
    actor["longest"] = analysis::what_text(of, one.longest);
    actor["longest_ns"] = one.longest_time;
    actor["slack_ns"] = one.slack ? boost::json::value(*one.slack) : boost::json::value(nullptr);
    actors.push_back(std::move(actor));
  }
  all["actors"] = std::move(actors);
  if (study.halved) {
    boost::json::object halved = named(of, study.halved->what);
    halved["time_ns"] = study.halved->time;
    if (study.halved->largest) halved["largest"] = contribution_json(of, *study.halved->largest);
    all["halved"] = std::move(halved);
  }
  return all;
}

boost::json::object statistics_json(const trace::recording& of, const analysis::path_statistics& all) {
  boost::json::array parts;
  for (const analysis::path_statistics::part& one : all.parts) {
    boost::json::object part = named(of, one.what);
    part["p50_ns"] = one.p50;
    part["p95_ns"] = one.p95;
    part["sum_ns"] = one.sum;
    part["steps"] = one.steps;
    part["largest"] = one.largest;
    parts.push_back(std::move(part));
  }
  return {
      {"steps", all.steps}, {"p50_ns", all.p50}, {"p95_ns", all.p95}, {"sum_ns", all.sum}, {"parts", std::move(parts)}};
}

}  // namespace troupe::page
