#include "page/run_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <functional>
#include <sstream>

#include "base/lossless_json.hpp"
#include "base/number.hpp"
#include "page/web_files.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/analysis/critical_path.hpp"
#include "trace/analysis/exports.hpp"
#include "trace/analysis/message_id.hpp"
#include "trace/analysis/message_list.hpp"
#include "trace/analysis/overview.hpp"
#include "trace/analysis/trace.hpp"

namespace troupe::page {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t kept_most = 200;
/// Limit of steps whose critical paths are summed: each takes some milliseconds.
constexpr std::size_t paths_most = 200;
/// Limit of a timeline's records: some 100 MiB of JSON.
constexpr std::size_t exported_most = 300'000;
/// Limit of the records of an earlier reading that are kept to see what has moved since.
constexpr std::size_t compared_most = 100'000;

http_response json(const boost::json::object& what, unsigned status = 200) {
  return http_response::of(status, "application/json", json_text(what));
}

http_response refused(unsigned status, std::string why) { return json({{"problem", std::move(why)}}, status); }

http_response unknown_step(const http_request& request) {
  return refused(404, fmt::format("step {} is not recorded as a whole", request.text("step")));
}

http_response web_answer(const web_file& file) {
  http_response answer = http_response::of(200, std::string(file.content_type), std::string(file.text));
  if (!file.content_type.starts_with("text/html")) answer.fields.emplace_back("Cache-Control", "private, max-age=60");
  return answer;
}

/// Adds to each of `rows`, which are made from `all`, the id of its message, by which the page finds it.
void add_ids(const auto& all, auto id, boost::json::value& rows) {
  auto row = rows.as_array().begin();
  for (const auto& one : all) {
    if (const std::uint64_t message = std::invoke(id, one)) row->as_object()["id"] = analysis::write_id(message);
    ++row;
  }
}

/// How long nothing has been recorded.
trace::nanoseconds silence_of(const trace::recording& run) {
  constexpr std::size_t looked_at = 1000;  // the newest by begin: one of them ended last
  trace::nanoseconds newest = 0;
  for (std::size_t i = run.events.size(); i > 0 && run.events.size() - i < looked_at; --i)
    newest = std::max(newest, run.events[i - 1].end);
  return run.end() - newest;
}

std::string key_of(const http_request& request) {
  std::string key = request.path;
  for (const auto& [name, value] : request.query) key += fmt::format("&{}={}:{}", name, value.size(), value);
  return key;
}

}  // namespace

run_page::run_page(std::unique_ptr<source> from) : source_(std::move(from)) {}

http_response run_page::answer(const http_request& request) {
  if (const web_file* file = find_web_file(request.path)) return web_answer(*file);
  struct endpoint {
    http_response (run_page::*make)(const http_request&);
    bool keeps = false;  ///< the answer is cached until the recording changes
  };
  static const std::map<std::string_view, endpoint> endpoints = {
      {"/api/topology", {&run_page::topology}},       {"/api/blocked", {&run_page::blocked}},
      {"/api/traffic", {&run_page::traffic, true}},   {"/api/curves", {&run_page::curves, true}},
      {"/api/steps", {&run_page::steps, true}},       {"/api/step", {&run_page::step, true}},
      {"/api/messages", {&run_page::messages, true}}, {"/api/message", {&run_page::message, true}},
      {"/api/paths", {&run_page::paths, true}},       {"/api/trace.json", {&run_page::exported}}};
  const auto found = endpoints.find(request.path);
  if (found == endpoints.end() && request.path != "/api/run" && request.path != "/metrics")
    return refused(404, "there is nothing here");
  take(source_->latest());
  if (request.path == "/api/run") return run();
  if (request.path == "/metrics") return metrics();
  if (!now_.what) return refused(503, now_.problem);
  if (!found->second.keeps) return (this->*found->second.make)(request);
  const std::string key = key_of(request);
  if (const auto kept = kept_.find(key); kept != kept_.end()) return kept->second;
  if (kept_.size() >= kept_most) kept_.clear();
  return kept_[key] = (this->*found->second.make)(request);
}

void run_page::take(reading next) {
  const bool changed = next.generation != now_.generation;
  if (changed && now_.what)
    before_ = std::make_shared<const trace::recording>(analysis::newest_of(*now_.what, compared_most));
  now_ = std::move(next);
  if (!changed) return;
  causes_.reset();
  windows_.reset();
  kept_.clear();
  if (scraped_ && now_.what) totals_.add(*now_.what);
}

const analysis::causality& run_page::causes() {
  if (!causes_) causes_ = std::make_unique<analysis::causality>(*now_.what);
  return *causes_;
}

const analysis::step_windows& run_page::windows() {
  if (!windows_) windows_ = analysis::find_steps(*now_.what);
  return *windows_;
}

const analysis::step_window* run_page::find_window(const http_request& request) {
  const auto found = analysis::find_step(windows(), parse_number<std::uint64_t>(request.text("step")).value_or(0));
  if (!found) return nullptr;
  const std::string_view trainer = request.text("trainer");
  for (const analysis::step_window* one : *found)
    if (trainer.empty() || now_.what->actor_name(one->commits.back().actor) == trainer) return one;
  return nullptr;
}

http_response run_page::run() {
  boost::json::object all = now_.what ? analysis::run_json(*now_.what) : boost::json::object();
  all["generation"] = now_.generation;
  all["live"] = now_.live;
  all["problem"] = now_.problem;
  all["exported_most"] = exported_most;
  return json(all);
}

http_response run_page::topology(const http_request& request) {
  constexpr std::uint64_t all = INT64_MAX;
  const std::uint64_t recent = parse_number<std::uint64_t>(request.text("recent_ns")).value_or(all);
  return json(analysis::topology_json(*now_.what, static_cast<trace::nanoseconds>(std::min(recent, all))));
}

http_response run_page::traffic(const http_request&) { return json(analysis::traffic_json(*now_.what)); }

http_response run_page::curves(const http_request&) {
  return json({{"curves", analysis::curves_of(*now_.what, windows())}});
}

http_response run_page::steps(const http_request& request) {
  return json(
      analysis::steps_json(*now_.what, windows(), parse_number<std::uint64_t>(request.text("last")).value_or(200)));
}

http_response run_page::step(const http_request& request) {
  const analysis::step_window* window = find_window(request);
  if (window == nullptr) return unknown_step(request);
  const analysis::step_study study = analysis::study_step(causes(), *window);
  boost::json::object path = analysis::study_json(*now_.what, study, windows().common);
  add_ids(study.path.chain, &analysis::path_segment::id, path["chain"]);
  boost::json::object all = analysis::waterfall_json(*now_.what, *window);
  all["path"] = std::move(path);
  return json(all);
}

http_response run_page::paths(const http_request& request) {
  const std::vector<analysis::step_window>& all = windows().whole;
  const std::size_t last =
      std::min<std::size_t>(parse_number<std::uint64_t>(request.text("last")).value_or(paths_most), paths_most);
  std::vector<analysis::step_path> paths;
  for (std::size_t i = all.size() - std::min(all.size(), last); i < all.size(); ++i)
    paths.push_back(analysis::find_critical_path(causes(), all[i]));
  return json(analysis::statistics_json(*now_.what, analysis::gather(paths)));
}

/// Computing it is slow, and is repeated each second while the run is under way: it is limited to a tenth of the time.
http_response run_page::blocked(const http_request&) {
  const auto begin = clock::now();
  const bool is_right = now_.live ? begin < blocked_next_ : blocked_of_ == now_.generation;
  if (is_right && blocked_live_ == now_.live) return blocked_;
  blocked_ = json(verdict());
  blocked_of_ = now_.generation;
  blocked_live_ = now_.live;
  const auto end = clock::now();
  blocked_next_ = end + (end - begin) * 9;
  return blocked_;
}

/// A live run makes progress if nothing has blocked it for a second, or for three slow steps if that is longer. An
/// actor that has moved since the previous reading is not blocked.
boost::json::object run_page::verdict() {
  constexpr trace::nanoseconds second = 1'000'000'000;
  const bool has_before = now_.live && before_ != nullptr && silence_of(*now_.what) < second;
  analysis::blocked_report report =
      has_before ? analysis::find_blocked(*before_, *now_.what) : analysis::find_blocked(*now_.what);
  const trace::nanoseconds stuck = analysis::blocked_for(*now_.what, report);
  const trace::nanoseconds slow_step = analysis::step_time(windows(), 95);
  const bool is_fact = report.what == analysis::blockage::dead || report.what == analysis::blockage::stopped;
  const bool moving = now_.live && !is_fact && (report.is_moving() || stuck < std::max(second, 3 * slow_step));
  if (moving && !report.is_moving()) {  // not blocked for long enough to say so
    report.what = analysis::blockage::none;
    report.verdict = "the run continues";
  }
  boost::json::object all = analysis::to_json(*now_.what, report);
  add_ids(report.waits, &analysis::wait_edge::message, all["waits"]);
  all["stuck_ns"] = stuck;
  all["moving"] = moving;
  return all;
}

http_response run_page::messages(const http_request& request) {
  const auto query = analysis::message_query::read(request.query);
  if (!query) return refused(400, query.error().message);
  const analysis::message_page found = analysis::find_messages(*now_.what, *query);
  boost::json::array rows;
  for (const std::uint32_t event : found.events) rows.push_back(analysis::row_of(*now_.what, now_.what->events[event]));
  const std::uint64_t next = query->cursor + rows.size();
  boost::json::object all{{"generation", now_.generation}, {"total", found.total}, {"cursor", query->cursor}};
  if (next < found.total) all["next_cursor"] = next;
  all["messages"] = std::move(rows);
  return json(all);
}

http_response run_page::message(const http_request& request) {
  const auto id = analysis::read_id(request.text("id"));
  if (!id) return refused(400, "a message's id is its sender's number, a dot and its sequence number, as in 3.417");
  return json(analysis::message_json(causes(), *id));
}

http_response run_page::metrics() {
  if (!scraped_ && now_.what) totals_.add(*now_.what);
  scraped_ = true;
  return http_response::of(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(now_, totals_));
}

http_response run_page::exported(const http_request& request) {
  trace::recording part;
  if (!request.text("step").empty()) {
    const analysis::step_window* window = find_window(request);
    if (window == nullptr) return unknown_step(request);
    // The previous step starts what this one waits for.
    part = analysis::part_of(*now_.what, window->begin - window->duration(), window->end);
  } else {
    part = analysis::newest_of(*now_.what, exported_most);
  }
  std::ostringstream to;
  analysis::write_timeline(part, to);
  http_response answer = http_response::of(200, "application/json", std::move(to).str());
  answer.fields.emplace_back("Content-Disposition", "attachment; filename=\"troupe-trace.json\"");
  return answer;
}

}  // namespace troupe::page
