// The checks of a run as text and as JSON.

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value_from.hpp>

#include "base/units.hpp"
#include "trace/analysis/check.hpp"

namespace troupe::analysis {

bool check_report::holds() const {
  return std::ranges::all_of(invariants, [](const invariant& one) { return one.violations == 0; });
}

std::string to_text(const check_report& report) {
  const auto broken = std::ranges::count_if(report.invariants, [](const invariant& one) { return one.violations > 0; });
  std::string text = broken == 0 ? "all invariants hold\n"
                                 : fmt::format("{} of {} invariants {} broken\n", broken, report.invariants.size(),
                                               broken == 1 ? "is" : "are");
  text += "\n";
  std::size_t width = 0;
  for (const invariant& one : report.invariants) width = std::max(width, one.name.size());
  for (const invariant& one : report.invariants) {
    const char* state = one.violations > 0 ? "BROKEN" : one.cases > 0 ? "holds" : "-";
    text += fmt::format("  {:<{}}  {:<6}  {:>11} cases  {}\n", one.name, width, state, count_text(one.cases), one.rule);
    for (const std::string& line : one.first) text += fmt::format("    {}\n", line);
    if (one.violations > one.first.size())
      text += fmt::format("    ... and {} more\n", count_text(one.violations - one.first.size()));
    if (!one.note.empty()) text += fmt::format("    {}\n", one.note);
  }
  if (!report.notes.empty()) text += "\n";
  for (const std::string& line : report.notes) text += line + "\n";
  return text;
}

boost::json::object to_json(const check_report& report) {
  boost::json::array invariants;
  for (const invariant& one : report.invariants)
    invariants.push_back({{"name", one.name},
                          {"rule", one.rule},
                          {"cases", one.cases},
                          {"violations", one.violations},
                          {"first", boost::json::value_from(one.first)},
                          {"note", one.note}});
  return {{"holds", report.holds()},
          {"invariants", std::move(invariants)},
          {"notes", boost::json::value_from(report.notes)}};
}

}  // namespace troupe::analysis
