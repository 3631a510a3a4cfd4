#include "trace/analysis/exports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "trace/analysis/causality.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

/// A name in one word, as JSON without its quotes.
std::string one_word(const std::string& name) {
  std::string text = json_string(name);
  std::ranges::replace(text, ' ', '_');
  return text.substr(1, text.size() - 2);
}

std::string what_of(const trace::recording& run, const trace::event& one) {
  if (one.what == trace::kind::handled)
    return fmt::format("{} (step {}) from {}", run.type_name(one.type), one.step, run.message_name(one.id));
  return fmt::format("{} (step {})", one.what == trace::kind::timer ? "turn of its own" : run.range_text(range_of(one)),
                     one.step);
}

/// Like `type_of`, but returns the message's type for a drop: the reason has its own column.
std::string column_type_of(const trace::recording& run, const trace::event& one) {
  return one.what == trace::kind::drop ? run.type_name(one.type) : type_of(run, one);
}

/// Returns a text as a cell, quoted as RFC 4180 requires. A recording may come from anyone, so text that a spreadsheet
/// would read as a formula gets an apostrophe before it.
std::string field(std::string_view text) {
  const bool is_formula = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
  const bool is_quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  std::string made = is_formula ? "'" : "";
  for (const char c : text) made += is_quoted && c == '"' ? "\"\"" : std::string(1, c);
  return is_quoted ? "\"" + made + "\"" : made;
}

std::string flags_of(const trace::event& one) {
  constexpr std::pair<std::uint8_t, std::string_view> names[] = {{flag::parked, "parked"},
                                                                 {flag::refused, "refused"},
                                                                 {flag::request, "request"},
                                                                 {flag::remote, "remote"},
                                                                 {flag::answer, "answer"}};
  std::string text;
  for (const auto& [bit, name] : names)
    if (one.has(bit)) text += fmt::format("{}{}", text.empty() ? "" : "|", name);
  return text;
}

}  // namespace

std::uint64_t write_shiviz(const trace::recording& run, std::ostream& to) {
  const causality index(run);
  const std::vector<std::uint16_t>& actors = index.actors();
  std::unordered_map<std::uint16_t, std::size_t> place;
  std::vector<std::string> names;
  std::vector<const trace::event*> activities;
  for (const std::uint16_t actor : actors) {
    place[actor] = names.size();
    names.push_back(one_word(run.actor_name(actor)));
    const auto all = index.activities(actor);
    activities.insert(activities.end(), all.begin(), all.end());
  }
  std::ranges::stable_sort(activities, {}, &trace::event::begin);

  using clock = std::vector<std::uint32_t>;  // by index of the actor
  std::unordered_map<const trace::event*, std::uint32_t> number;
  std::vector<clock> written;
  std::vector<clock> now(actors.size(), clock(actors.size()));
  const auto advance = [](clock& mine, const clock& other) {
    std::ranges::transform(mine, other, mine.begin(), [](auto a, auto b) { return std::max(a, b); });
  };
  to << "(?<event>.*)\\n(?<host>\\S*) (?<clock>{.*})\n\n";
  std::string lines;
  for (const trace::event* one : activities) {
    const std::size_t actor = place.at(one->actor);
    if (one->what == trace::kind::handled)
      if (const trace::event* sending = index.sent_in(*one))
        if (const auto* known = find_in(number, sending)) advance(now[actor], written[*known]);
    ++now[actor][actor];
    number.emplace(one, static_cast<std::uint32_t>(written.size()));
    written.push_back(now[actor]);
    lines.clear();
    fmt::format_to(std::back_inserter(lines), "{}\n{} {{", one_line(what_of(run, *one)), names[actor]);
    const char* comma = "";
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (now[actor][i] == 0) continue;
      fmt::format_to(std::back_inserter(lines), "{}\"{}\":{}", comma, names[i], now[actor][i]);
      comma = ",";
    }
    to << lines << "}\n";
  }
  return activities.size();
}

std::uint64_t write_csv(const trace::recording& run, std::ostream& to) {
  to << "kind,process,actor,type,message,cause,step,sent_ns,arrived_ns,begin_ns,end_ns,bytes,aux,value,flags\r\n";
  by_number<std::string> names([&](std::uint16_t actor) { return run.actor_name(actor); });
  const auto message = [&](std::uint64_t id) {
    return id == 0 ? std::string() : field(fmt::format("{} #{}", names[trace::sender_of(id)], trace::sequence_of(id)));
  };
  std::string line;
  for (const trace::event& one : run.events) {
    const bool is_collective = one.what == trace::kind::collective || one.what == trace::kind::collective_launch;
    const std::string number = one.what == trace::kind::collective          ? std::to_string(one.id)
                               : one.what == trace::kind::collective_launch ? std::to_string(one.cause)
                               : one.what == trace::kind::metric ? fmt::format("{}", std::bit_cast<double>(one.raw))
                               : one.what == trace::kind::credit || one.what == trace::kind::credit_wait
                                   ? std::to_string(one.raw)
                                   : "";
    line.clear();
    fmt::format_to(std::back_inserter(line), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
                   trace::name_of(one.what), one.process, field(names[one.actor]), field(column_type_of(run, one)),
                   one.what == trace::kind::collective ? "" : message(one.id), is_collective ? "" : message(one.cause),
                   one.step, one.sent, one.arrived, one.begin, one.end, one.bytes, one.aux, number, flags_of(one));
    to << line;
  }
  return run.events.size();
}

}  // namespace troupe::analysis
