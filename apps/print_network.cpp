#include "apps/print_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/aligned.hpp"
#include "base/json_text.hpp"
#include "model/network_rows.hpp"
#include "model/stages.hpp"
#include "nn/samples.hpp"

namespace troupe::apps {
namespace {

struct totals {
  std::uint64_t parameters = 0;
  std::uint64_t multiply_adds = 0;
};

/// Returns the stage of a layer; `begins`: the layers at which stages begin.
std::size_t stage_of(const model::network_row& row, const std::vector<std::size_t>& begins) {
  if (row.part == "bottom") return 0;
  return static_cast<std::size_t>(std::ranges::upper_bound(begins, row.number) - begins.begin()) - 1;
}

/// The tables and layers as JSON events, the sums last.
void print_events(const std::vector<model::network_row>& rows, const std::vector<std::size_t>& stages,
                  const model::data_spec& spec, const totals& all, launch::console& out) {
  for (std::size_t t = 0; t < spec.tables.size(); ++t)
    out.event(json_line("table")
                  .add("number", std::uint64_t{t})
                  .add("rows", static_cast<std::uint64_t>(spec.tables[t].rows))
                  .add("dim", std::uint64_t{spec.tables[t].dim})
                  .take());
  const auto lengths = [](const troupe::shape& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
  };
  for (const auto& row : rows) {
    json_line line("layer");
    line.add("part", row.part).add("number", std::uint64_t{row.number});
    if (!stages.empty()) line.add("stage", std::uint64_t{stage_of(row, stages)});
    out.event(line.add("kind", row.kind)
                  .add("options", row.options)
                  .add_json("in", lengths(row.in))
                  .add_json("out", lengths(row.out))
                  .add("parameters", std::uint64_t{row.parameters})
                  .add("multiply_adds", row.multiply_adds)
                  .take());
  }
  out.event(json_line("network").add("parameters", all.parameters).add("multiply_adds", all.multiply_adds).take());
}

std::string table_lines(const model::data_spec& spec) {
  std::string text;
  for (std::size_t t = 0; t < spec.tables.size();) {
    std::size_t last = t;
    while (last + 1 < spec.tables.size() && spec.tables[last + 1].rows == spec.tables[t].rows &&
           spec.tables[last + 1].dim == spec.tables[t].dim)
      ++last;
    const std::string which = last > t ? fmt::format("tables {} to {}", t, last) : fmt::format("table {}", t);
    text +=
        fmt::format("{}: {} rows x {}{}\n", which, spec.tables[t].rows, spec.tables[t].dim, last > t ? " each" : "");
    t = last + 1;
  }
  return text;
}

}  // namespace

void print_network(const model::job& what, const model::data_spec& spec, launch::console& out) {
  const auto rows = model::network_rows(what, spec);
  totals all;
  for (const auto& row : rows) {
    all.parameters += row.parameters;
    all.multiply_adds += row.multiply_adds;
  }
  std::vector<std::size_t> stages;
  if (what.pipeline > 1) stages = what.stages.empty() ? model::measured_stages(what, spec) : what.stages;
  if (out.json()) return print_events(rows, stages, spec, all, out);
  using cells = std::array<std::string, 8>;
  std::vector<cells> lines = {
      {"layer", "kind", "options", "input", "output", "parameters", "multiply-adds", stages.empty() ? "" : "stage"}};
  for (const auto& row : rows) {
    lines.push_back({fmt::format("{}.{}", row.part, row.number), row.kind, row.options, nn::lengths_text(row.in),
                     nn::lengths_text(row.out), std::to_string(row.parameters), std::to_string(row.multiply_adds),
                     stages.empty() ? "" : std::to_string(stage_of(row, stages))});
  }
  lines.push_back({"all", "", "", "", "", std::to_string(all.parameters), std::to_string(all.multiply_adds), ""});
  std::string text = table_lines(spec) + aligned(lines, 5);
  if (what.pipeline > 1 && what.stages.empty())
    text += fmt::format("stages as measured just now, which a run does anew; --stages {} keeps them\n",
                        fmt::join(stages, ","));
  out.result(text);
}

}  // namespace troupe::apps
