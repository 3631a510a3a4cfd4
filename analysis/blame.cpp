#include "analysis/blame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "analysis/sparse_gradient.hpp"
#include "analysis/table.hpp"
#include "trace/units.hpp"

namespace troupe::analysis {

namespace {

/// A handled message and what it held.
struct held_message {
  const event* message = nullptr;
  const content* held = nullptr;  ///< null: its bytes were not recorded
};

/// Messages of a type, in the order in which they were handled.
std::vector<held_message> messages_of(const recording& run, std::string_view type) {
  std::unordered_map<std::uint64_t, const content*> contents;
  for (const content& one : run.contents)
    if (!one.fields.empty()) contents.emplace(one.id, &one);
  std::map<std::uint16_t, bool> of_type;
  for (const auto& [number, name] : run.types) of_type[number] = name == type;
  std::vector<held_message> found;
  for (const event& one : run.events) {
    if (one.what != kind::handled || !of_type[one.type]) continue;
    const auto held = contents.find(one.id);
    if (held != contents.end()) found.push_back({&one, held->second});
  }
  return found;
}

/// A module of a server.
struct module_place {
  std::uint16_t server = 0;
  std::uint64_t number = 0;
  table_shard shard;
};

/// A server numbers its modules from 1, in the order in which it was told to make them.
std::vector<module_place> find_modules(const recording& run) {
  std::map<std::uint16_t, std::uint64_t> made;
  std::vector<module_place> all;
  for (const auto& [message, held] : messages_of(run, "instantiate")) {
    if (message->has(flag::refused)) continue;
    const std::uint64_t number = ++made[message->actor];
    const auto shard = held == nullptr ? std::nullopt : shard_of(*held);
    if (shard) all.push_back({message->actor, number, *shard});
  }
  return all;
}

tl::expected<module_place, std::string> find_module(const recording& run, std::uint64_t table, std::uint64_t row) {
  const std::vector<module_place> all = find_modules(run);
  if (all.empty())
    return tl::unexpected(std::string(
        "the recording does not hold what servers were sent: record the run with --trace payload --trace-payload "
        "'server *'"));
  std::set<std::uint64_t> tables;
  const module_place* any = nullptr;
  for (const module_place& one : all) {
    tables.insert(one.shard.table);
    if (one.shard.table != table) continue;
    if (one.shard.has(row)) return one;
    any = &one;
  }
  if (any == nullptr)
    return tl::unexpected(
        fmt::format("there is no table {}: the run has tables {} to {}", table, *tables.begin(), *tables.rbegin()));
  if (row >= any->shard.rows)
    return tl::unexpected(fmt::format("table {} has rows 0 to {}, not {}", table, any->shard.rows - 1, row));
  return tl::unexpected(
      fmt::format("the recording does not hold what the server with row {} of table {} was sent", row, table));
}

row_gradient weigh(const event& message, std::uint32_t rank, const summed_row& row) {
  row_gradient made{message.id, message.step, rank, row.occurrences, 0, 0, message.has(flag::refused)};
  for (const double x : row.sum) {
    made.norm += x * x;
    made.largest = std::isnan(x) || std::abs(x) > made.largest ? std::abs(x) : made.largest;
  }
  made.norm = std::sqrt(made.norm);
  return made;
}

}  // namespace

tl::expected<blame_report, std::string> blame(const recording& run, std::uint64_t table, std::uint64_t row) {
  const auto module = find_module(run, table, row);
  if (!module) return tl::unexpected(module.error());
  blame_report made;
  made.table = table;
  made.row = row;
  made.server = module->server;
  std::uint64_t damaged = 0;
  for (const auto& [message, held] : messages_of(run, "gradient")) {
    if (message->actor != module->server) continue;
    ++made.gradients;
    const auto fields = held == nullptr ? std::nullopt : fields_of(*held);
    if (!fields) {
      ++damaged;
      continue;
    }
    for (std::size_t i = 0; i < fields->modules.size(); ++i) {
      if (fields->modules[i] != module->number) continue;
      const auto found = gradient_of_row(*held, i, module->shard, module->shard.place(row));
      if (!found)
        ++damaged;
      else if (found->occurrences > 0)
        made.touches.push_back(weigh(*message, fields->rank, *found));
    }
  }
  if (damaged > 0) made.notes.push_back(fmt::format("{} gradients are not recorded whole", count_text(damaged)));
  std::uint64_t lost = 0, overwritten = 0;
  for (const process_info& process : run.processes) {
    lost += process.contents_lost;
    overwritten += process.overwritten;
  }
  if (lost > 0)
    made.notes.push_back(fmt::format("contents of {} messages were lost while recording: gradients may be among them",
                                     count_text(lost)));
  if (overwritten > 0)
    made.notes.push_back(
        fmt::format("{} records were overwritten: gradients may be among them", count_text(overwritten)));
  return made;
}

std::string blame_text(const recording& run, const blame_report& report, std::size_t limit) {
  const auto& all = report.touches;
  std::string text = all.empty()
                         ? fmt::format("no gradient touched row {} of table {}, of {} that {} was sent\n", report.row,
                                       report.table, count_text(report.gradients), run.actor_name(report.server))
                         : fmt::format("{} gradient{} touched row {} of table {}, of {} that {} was sent\n",
                                       count_text(all.size()), all.size() == 1 ? "" : "s", report.row, report.table,
                                       count_text(report.gradients), run.actor_name(report.server));
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  if (all.empty()) return text;
  std::vector<const row_gradient*> shown;
  for (const row_gradient& one : all) shown.push_back(&one);
  if (shown.size() > limit) {
    // NaN first: it is what is looked for.
    const auto weight = [](const row_gradient* one) { return std::isnan(one->norm) ? INFINITY : one->norm; };
    std::ranges::stable_sort(shown, std::greater(), weight);
    shown.resize(limit);
    std::ranges::sort(shown);
    text += fmt::format("the {} with the largest norms:\n", count_text(limit));
  }
  table rows({"step", "trainer", "occurrences", "norm", "largest", "message", ""}, "rrrrrll");
  double squares = 0;
  std::uint64_t occurrences = 0;
  for (const row_gradient& one : all) {
    squares += one.norm * one.norm;
    occurrences += one.occurrences;
  }
  for (const row_gradient* one : shown)
    rows.add({fmt::format("{}", one->step), fmt::format("{}", one->trainer), count_text(one->occurrences),
              fmt::format("{:.4g}", one->norm), fmt::format("{:.4g}", one->largest), run.message_name(one->message),
              one->refused ? "refused" : ""});
  rows.add({"total", "", count_text(occurrences), fmt::format("{:.4g}", std::sqrt(squares)), "", "", ""});
  return text + rows.text();
}

boost::json::object blame_json(const recording& run, const blame_report& report) {
  boost::json::array touches;
  // A number that is none is no JSON.
  const auto number = [](double x) { return std::isfinite(x) ? boost::json::value(x) : boost::json::value(nullptr); };
  for (const row_gradient& one : report.touches)
    touches.push_back({{"step", one.step},
                       {"trainer", one.trainer},
                       {"occurrences", one.occurrences},
                       {"norm", number(one.norm)},
                       {"largest", number(one.largest)},
                       {"refused", one.refused},
                       {"message", run.message_name(one.message)}});
  return {{"table", report.table},
          {"row", report.row},
          {"server", run.actor_name(report.server)},
          {"gradients", report.gradients},
          {"touches", touches},
          {"notes", boost::json::array(report.notes.begin(), report.notes.end())}};
}

}  // namespace troupe::analysis
