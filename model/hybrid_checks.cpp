#include <fmt/format.h>

#include <algorithm>

#include "model/hybrid.hpp"
#include "model/job_table.hpp"
#include "model/stages.hpp"
#include "nn/samples.hpp"

namespace troupe::model {

namespace {

// More than any machine can train; below it no product here overflows 64 bits.
constexpr std::uint64_t dense_weights_max = std::uint64_t{1} << 31;

std::uint64_t weights_of(std::uint64_t width, const std::vector<std::size_t>& hidden, std::uint64_t outputs) {
  std::uint64_t weights = 0;
  for (const std::size_t next : hidden) {
    weights += (width + 1) * next;
    width = next;
  }
  return weights + (width + 1) * outputs;
}

std::optional<std::string> check_vectors(const data_spec& spec) {
  if (spec.tables.empty() || spec.tables.size() + spec.dense_features < 2)
    return fmt::format(
        "--interaction dot: needs two vectors or more, from tables and dense features; there are {} table(s) and {} "
        "dense features; use cat",
        spec.tables.size(), spec.dense_features);
  const auto other = std::ranges::adjacent_find(spec.tables, std::ranges::not_equal_to(), &table_spec::dim);
  if (other == spec.tables.end()) return std::nullopt;
  const auto table = other - spec.tables.begin();
  return fmt::format("--interaction dot: needs tables of one width; table {} has {}, table {} has {}; use cat", table,
                     other->dim, table + 1, std::next(other)->dim);
}

/// Checks a network given by layers: each must accept the output of the one before it, and the last must make the
/// outputs. Messages use the numbers of the job's layers. Sets `weights` to the network's parameters.
std::optional<std::string> check_layers(const job& what, const data_spec& spec, std::uint64_t& weights) {
  const troupe::shape in = top_input(what, spec);
  // Cross layers before these keep the shape, so they fit whenever the others do.
  const auto given = nn::make_layers(what.layers, in);
  if (!given) return "--layers: " + given.error().message;
  if (!given->empty() && !(given->back().out == troupe::shape(spec.outputs)))
    return fmt::format("--layers: the last one, layer {} ({}), makes {}; {} needs {}; end with linear, out = {}",
                       given->size() - 1, given->back().what->type(), nn::lengths_text(given->back().out), what.data,
                       spec.outputs, spec.outputs);
  const auto made = nn::make_layers(top_layers(what, spec), in);
  if (!made) return "--layers: " + made.error().message;
  const auto takes_ids =
      std::ranges::find_if(*made, [](const nn::made_layer& one) { return one.what->ids().has_value(); });
  if (takes_ids != made->end() && !spec.tables.empty())
    return fmt::format("--layers: {} takes ids, and {} has tables, whose rows the network takes too; leave either out",
                       takes_ids->what->type(), what.data);
  for (const nn::made_layer& one : *made) weights += nn::count_of(one.what->parameters());
  return std::nullopt;
}

std::optional<std::string> check_options(const job& what, const data_spec& spec) {
  if (what.bottom_hidden && spec.dense_features == 0)
    return fmt::format("--bottom-hidden {}: {} has no dense features for a bottom MLP; leave it out",
                       widths_text(*what.bottom_hidden), what.data);
  if (what.interaction == interaction_kind::dot) return check_vectors(spec);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_network(const job& what, const data_spec& spec) {
  if (auto wrong = check_options(what, spec)) return wrong;
  std::uint64_t weights = 0;
  std::string names = what.layers.empty() ? "--hidden " + widths_text(what.hidden) : "--layers";
  if (!top_layers(what, spec).empty()) {
    if (auto wrong = check_layers(what, spec, weights)) return wrong;
  } else {
    weights = weights_of(top_input(what, spec).count(), what.hidden, spec.outputs);
  }
  if (has_bottom(what, spec)) {
    const auto bottom_hidden = what.bottom_hidden.value_or(default_bottom_hidden());
    weights += weights_of(spec.dense_features, bottom_hidden, spec.tables.front().dim);
    names += ", --bottom-hidden " + widths_text(bottom_hidden);
  }
  if (what.interaction == interaction_kind::dcn)
    names += fmt::format(", --cross-rank {}", what.cross_rank.value_or(default_cross_rank));
  if (weights <= dense_weights_max) return check_parts(what, spec);
  return fmt::format("{}: the network would have {} weights; must be at most {}; use narrower layers", names, weights,
                     dense_weights_max);
}

}  // namespace troupe::model
