#include "apps/trace_answers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/input_files.hpp"
#include "base/lossless_json.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "model/job.hpp"
#include "trace/analysis/blame.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/analysis/check.hpp"
#include "trace/analysis/critical_path.hpp"
#include "trace/analysis/diff.hpp"
#include "trace/analysis/exports.hpp"
#include "trace/analysis/lasting_waits.hpp"
#include "trace/analysis/message_id.hpp"
#include "trace/analysis/summary.hpp"
#include "trace/analysis/why.hpp"

namespace troupe::apps {

result<std::optional<std::uint64_t>> read_number(const question& asked, const std::string& name, std::uint64_t least) {
  const auto text = given_text(asked.app, name);
  if (!text) return std::nullopt;
  const auto value = parse_number<std::uint64_t>(*text);
  if (value && *value >= least) return *value;
  return bad_input("--{} {}: must be a whole number, {} or more", name, printable(*text), least);
}

result<trace::sources> sources_of(const question& asked, std::span<const std::string> paths, std::uint64_t share) {
  TROUPE_TRY(run, read_number(asked, "run", 1));
  TROUPE_TRY(attempt, read_number(asked, "attempt", 1));
  if (run && attempt) return bad_input("--attempt {}: goes without --run, which names one already", *attempt);
  trace::sources from = nodes::trace_sources({paths.begin(), paths.end()}, run.value_or(0), share);
  from.attempt = attempt.value_or(0);
  return from;
}

void report_attempt(const question& asked, const trace::sources& from, const trace::recording& read) {
  if (read.attempts.size() < 2 || from.run != 0 || from.attempt != 0) return;
  asked.out.note(fmt::format("of {} attempts at this run, this is the newest, {}; --attempt K reads another",
                             read.attempts.size(), read.attempts.back().number));
}

namespace {

result<trace::recording> read_silently(const question& asked, std::span<const std::string> paths) {
  TROUPE_TRY(from, sources_of(asked, paths));
  auto read = trace::read_recording(from);
  if (!read) return bad_input(one_line(read.error().message));
  report_attempt(asked, from, *read);
  return read;
}

result<trace::recording> with_warnings(const question& asked, result<trace::recording> read) {
  if (read)
    for (const std::string& warning : read->warnings)  // on stderr: it is not a result
      asked.out.report("warning: " + one_line(warning));
  return read;
}

}  // namespace

result<trace::recording> read_recording(const question& asked, std::span<const std::string> paths) {
  return with_warnings(asked, read_silently(asked, paths));
}

result<trace::recording> read_for_verdict(const question& asked, std::span<const std::string> paths) {
  auto read = read_silently(asked, paths);
  const auto unreadable = read ? read->unreadable_metadata() : std::nullopt;
  if (!unreadable) return with_warnings(asked, std::move(read));
  return bad_input("{}: troupe trace {} has no answer; summary and timeline show what can be read",
                   one_line(*unreadable), asked.name);
}

namespace {

result<std::size_t> limit_of(const question& asked) {
  TROUPE_TRY(given, read_number(asked, "limit", 1));
  return given.value_or(20);
}

/// Prints text with escapes, since names in it come from files; or an object on one line.
void show(const question& asked, std::string_view text) {
  std::string lines;
  for (const std::string_view line : split(text, '\n')) lines += one_line(line) + "\n";
  if (!text.empty() && text.back() == '\n') lines.pop_back();
  asked.out.result(lines);
}

void show(const question& asked, const boost::json::object& fields) {
  boost::json::object line = {{"event", asked.name}};
  for (const auto& field : fields) line.insert(field);
  asked.out.result(json_text(line) + "\n");
}

/// Reads the recording that follows the first word, finds the message that the first word names, and calls `then`.
template <class Then>
result<int> about_message(const question& asked, Then then) {
  TROUPE_TRY(limit, limit_of(asked));
  TROUPE_TRY(run, read_recording(asked, std::span(asked.arguments).subspan(1)));
  const analysis::causality index(run);
  const auto id = analysis::find_message(index, asked.arguments.front());
  if (!id) return bad_input(one_line(id.error().message));
  then(index, *id, limit);
  return exit_done;
}

}  // namespace

result<int> summary(const question& asked) {
  TROUPE_TRY(limit, limit_of(asked));
  TROUPE_TRY(run, read_recording(asked, asked.arguments));
  const analysis::causality index(run);
  const analysis::summary found = analysis::summarize(index);
  asked.out.json() ? show(asked, analysis::summary_json(index, found))
                   : show(asked, analysis::summary_text(index, found, limit));
  return exit_done;
}

result<int> critical_path(const question& asked) {
  TROUPE_TRY(limit, limit_of(asked));
  TROUPE_TRY(step, read_number(asked, "step", 0));
  TROUPE_TRY(run, read_recording(asked, asked.arguments));
  const auto found = analysis::report_critical_path(analysis::causality(run), step);
  if (!found) return bad_input(found.error().message);
  asked.out.json() ? show(asked, analysis::report_json(run, *found))
                   : show(asked, analysis::report_text(run, *found, limit));
  return exit_done;
}

result<int> why(const question& asked) {
  return about_message(asked, [&](const analysis::causality& index, std::uint64_t id, std::size_t limit) {
    const analysis::cause_chain chain = analysis::find_causes(index, id);
    asked.out.json() ? show(asked, analysis::causes_json(index, chain))
                     : show(asked, analysis::causes_text(index, chain, limit));
  });
}

result<int> cone(const question& asked) {
  return about_message(asked, [&](const analysis::causality& index, std::uint64_t id, std::size_t limit) {
    const analysis::influence found = analysis::find_influence(index, id);
    asked.out.json() ? show(asked, analysis::influence_json(index, found, limit))
                     : show(asked, analysis::influence_text(index, found, limit));
  });
}

namespace {

bool is_alive(const trace::recording& run) {
  return std::ranges::any_of(run.processes, [](const auto& one) { return one.alive.value_or(false); });
}

int show_blocked(const question& asked, const trace::recording& run, const analysis::blocked_report& found) {
  if (asked.out.json()) {
    boost::json::object answer = analysis::to_json(run, found);
    answer["moving"] = found.is_moving();
    show(asked, answer);
  } else {
    show(asked, analysis::to_text(run, found));
  }
  return exit_done;
}

}  // namespace

/// Rings show the present state; logs, which are long, are read for the history only if the run does not move.
result<int> blocked(const question& asked) {
  TROUPE_TRY(from, sources_of(asked, asked.arguments));
  from.only_rings = true;
  TROUPE_TRY(first, trace::read_recording(from));
  std::optional<trace::recording> later;
  if (is_alive(first) && !first.unreadable_metadata()) {
    analysis::blocked_report found = analysis::find_blocked(first);
    for (analysis::second_look looks; looks.has_more(found);) {
      TROUPE_TRY(now, trace::read_recording(from));
      later = std::move(now);
      found = analysis::find_blocked(first, *later);
    }
    if (found.is_moving()) {
      report_attempt(asked, from, *later);
      return show_blocked(asked, *later, found);
    }
  }
  TROUPE_TRY(run, read_for_verdict(asked, asked.arguments));
  return show_blocked(asked, run, later ? analysis::find_blocked(first, run) : analysis::find_blocked(run));
}

result<int> check(const question& asked) {
  TROUPE_TRY(run, read_for_verdict(asked, asked.arguments));
  const analysis::check_report found = analysis::check(run);
  asked.out.json() ? show(asked, analysis::to_json(found)) : show(asked, analysis::to_text(found));
  return found.holds() ? exit_done : exit_failed;
}

result<int> timeline(const question& asked) {
  const auto file = given_text(asked.app, "output");
  if (!file) return bad_input("troupe trace timeline needs -o FILE, the file to write");
  const bool shiviz = asked.app.count("--shiviz") > 0;
  const bool csv = asked.app.count("--csv") > 0;
  if (shiviz && csv) return bad_input("--shiviz and --csv: one at a time");
  TROUPE_TRY(run, read_recording(asked, asked.arguments));
  if (auto allowed = check_output(*file); !allowed)
    return bad_input("--output {}: {}", printable_path(*file), allowed.error().message);
  std::ofstream to(*file, std::ios::binary);
  boost::json::object written{{"file", *file}};
  if (shiviz || csv) {
    written["events"] = shiviz ? analysis::write_shiviz(run, to) : analysis::write_csv(run, to);
  } else {
    const analysis::timeline_counts counts = analysis::write_timeline(run, to);
    written["slices"] = counts.slices;
    written["messages"] = counts.messages;
    written["flows"] = counts.flows;
  }
  to.flush();
  if (!to) return run_fault("--output {}: cannot be written: {}", printable(*file), std::strerror(errno));
  if (asked.out.json()) {
    show(asked, written);
  } else {
    show(asked, fmt::format("{} is written{}\n", *file,
                            shiviz || csv ? "" : "; open it in ui.perfetto.dev or chrome://tracing"));
  }
  return exit_done;
}

result<int> diff(const question& asked) {
  TROUPE_TRY(limit, limit_of(asked));
  analysis::diff_options how{.any_order = asked.app.count("--order") > 0, .timing = {}};
  if (const auto text = given_text(asked.app, "timing")) {
    how.timing = parse_number<double>(*text);
    if (!how.timing || !(*how.timing >= 0))
      return bad_input("--timing {}: must be a number, 0 or more", printable(*text));
  }
  if (asked.arguments.size() != 2) return bad_input("usage: troupe trace diff A B, each a FILE or DIR");
  TROUPE_TRY(a, read_for_verdict(asked, std::span(asked.arguments).first(1)));
  TROUPE_TRY(b, read_for_verdict(asked, std::span(asked.arguments).last(1)));
  const analysis::diff found = analysis::compare(a, b, how);
  asked.out.json() ? show(asked, analysis::diff_json(a, b, found))
                   : show(asked, analysis::diff_text(a, b, found, limit));
  return found.same() ? exit_done : exit_failed;
}

result<int> blame(const question& asked) {
  TROUPE_TRY(limit, limit_of(asked));
  const auto table = parse_number<std::uint64_t>(asked.arguments[0]);
  const auto row = parse_number<std::uint64_t>(asked.arguments[1]);
  if (!table || !row)
    return bad_input("troupe trace blame {} {}: TABLE and ROW must be whole numbers, from 0",
                     printable(asked.arguments[0]), printable(asked.arguments[1]));
  TROUPE_TRY(run, read_for_verdict(asked, std::span(asked.arguments).subspan(2)));
  const auto found = analysis::blame(run, *table, *row);
  if (!found) return bad_input(one_line(found.error().message));
  asked.out.json() ? show(asked, analysis::blame_json(run, *found))
                   : show(asked, analysis::blame_text(run, *found, limit));
  return exit_done;
}

}  // namespace troupe::apps
