#include "trace/analysis/blame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "base/mapped.hpp"
#include "base/units.hpp"
#include "protocol/content_reader.hpp"
#include "trace/analysis/contents.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/table.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

/// Calls `look` with each handled message of this type whose bytes were recorded, in order, and with its content.
template <class Message, class F>
void each_held(const trace::recording& run, F&& look) {
  const auto type = type_number<Message>(run);
  std::unordered_map<std::uint64_t, const trace::content*> contents;
  for (const trace::content& one : run.contents)
    if (!one.fields.empty()) contents.emplace(one.id, &one);
  for (const trace::event& one : run.events | of_kind(trace::kind::handled))
    if (one.type == type)
      if (const auto* held = find_in(contents, one.id)) look(one, **held);
}

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Nullopt: the module is not a table, or its record is damaged.
std::optional<table_shard> shard_of(const trace::content& held) {
  msg::instantiate made;
  if (!protocol::read_content_into(held, made) || made.spec.type != "EmbeddingBag" || made.shards == 0) return {};
  table_shard shard;
  for (const auto& [name, value] : made.spec.args) {
    if (name == "table") shard.table = number_in(value);
    if (name == "num_embeddings") shard.rows = number_in(value);
    if (name == "embedding_dim") shard.dim = number_in(value);
    if (name == "mode") shard.is_mean = value == "mean";
    if (name == "split") shard.has_columns = value == "columns";
  }
  shard.shard = made.shard;
  shard.shards = made.shards;
  return shard;
}

/// A module of a server.
struct module_location {
  std::uint16_t server = 0;
  std::uint64_t number = 0;
  table_shard shard;
};

/// Servers number their modules from 1, in the order of the `instantiate` messages.
std::vector<module_location> find_modules(const trace::recording& run) {
  std::map<std::uint16_t, std::uint64_t> made;
  std::vector<module_location> all;
  each_held<msg::instantiate>(run, [&](const trace::event& message, const trace::content& held) {
    if (message.has(flag::refused)) return;
    const std::uint64_t number = ++made[message.actor];
    if (const auto shard = shard_of(held)) all.push_back({message.actor, number, *shard});
  });
  return all;
}

result<module_location> find_module(const trace::recording& run, std::uint64_t table, std::uint64_t row) {
  const std::vector<module_location> all = find_modules(run);
  if (all.empty())
    return bad_input(
        "the recording does not hold what servers were sent: record the run with --trace payload --trace-payload "
        "'server *'");
  std::set<std::uint64_t> tables;
  const module_location* any = nullptr;
  for (const module_location& one : all) {
    tables.insert(one.shard.table);
    if (one.shard.table != table) continue;
    if (one.shard.has_columns)
      return bad_input(
          "table {} is split by columns, so that no server has all of row {}: record the run with --table-split rows, "
          "which has the same gradients",
          table, row);
    if (one.shard.has(row)) return one;
    any = &one;
  }
  if (any == nullptr)
    return bad_input("there is no table {}: the run has tables {} to {}", table, *tables.begin(), *tables.rbegin());
  if (row >= any->shard.rows) return bad_input("table {} has rows 0 to {}, not {}", table, any->shard.rows - 1, row);
  return bad_input("the recording does not hold what the server with row {} of table {} was sent", row, table);
}

row_gradient weigh(const trace::event& message, std::uint32_t rank, const summed_row& row) {
  row_gradient made{message.id, message.step, rank, row.occurrences, 0, 0, message.has(flag::refused)};
  for (const double x : row.sum) {
    made.norm += x * x;
    made.largest = std::isnan(x) || std::abs(x) > made.largest ? std::abs(x) : made.largest;
  }
  made.norm = std::sqrt(made.norm);
  return made;
}

/// Whether the shapes of its parts agree with each other and with a table of `dim` columns.
bool is_whole(const msg::bag_gradient& one, std::uint64_t dim) {
  const std::size_t count = one.indices.as<std::int64_t>().size();
  const std::size_t bags = one.offsets.as<std::int64_t>().size();
  const bool is_real = one.grad.type == dtype::f32 || one.grad.type == dtype::f16 || one.grad.type == dtype::bf16;
  return dim > 0 && is_real && one.grad.cols == dim && one.grad.rows == (bags > 0 ? bags : count) &&
         (one.weights.empty() || one.weights.as<float>().size() == count);
}

}  // namespace

std::optional<summed_row> gradient_of_row(const msg::bag_gradient& one, const table_shard& of, std::uint64_t row) {
  if (!is_whole(one, of.dim)) return {};
  const auto indices = one.indices.as<std::uint64_t>();
  const auto offsets = one.offsets.as<std::uint64_t>();
  const auto weights = one.weights.as<float>();
  const auto begin_of = [&](std::size_t bag) {
    return bag < offsets.size() ? std::min<std::size_t>(offsets[bag], indices.size()) : indices.size();
  };
  summed_row made;
  std::size_t bag = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    while (bag + 1 < offsets.size() && begin_of(bag + 1) <= i) ++bag;
    if (indices[i] != of.index_of(row)) continue;
    ++made.occurrences;
    made.sum.resize(of.dim);  // the gradient has at least one row of `dim` numbers
    double factor = weights.empty() ? 1 : weights[i];
    if (!offsets.empty() && of.is_mean) {
      const std::size_t length = begin_of(bag + 1) - begin_of(bag);
      factor = length > 0 ? 1.0F / static_cast<float>(length) : 0;
    }
    const std::size_t from = (offsets.empty() ? i : bag) * of.dim;
    for (std::size_t d = 0; d < of.dim; ++d)
      made.sum[d] += factor * number_at(one.grad.type, one.grad.bytes.data(), from + d);
  }
  return made;
}

result<blame_report> blame(const trace::recording& run, std::uint64_t table, std::uint64_t row) {
  TROUPE_TRY(module, find_module(run, table, row));
  blame_report made{.table = table, .row = row, .server = module.server, .touches = {}, .notes = {}};
  std::uint64_t damaged = 0;
  each_held<msg::gradient>(run, [&](const trace::event& message, const trace::content& held) {
    if (message.actor != module.server) return;
    ++made.gradients;
    msg::gradient sent;
    if (!protocol::read_content_into(held, sent)) {
      ++damaged;
      return;
    }
    for (const msg::bag_gradient& one : sent.tables) {
      if (one.module != module.number) continue;
      const auto found = gradient_of_row(one, module.shard, row);
      if (!found)
        ++damaged;
      else if (found->occurrences > 0)
        made.touches.push_back(weigh(message, sent.rank, *found));
    }
  });
  if (damaged > 0) add_line(made.notes, "{} gradients are not recorded whole", count_text(damaged));
  if (const std::uint64_t lost = total(run, &trace::process_info::contents_lost); lost > 0)
    add_line(made.notes, "contents of {} messages were lost while recording: gradients may be among them",
             count_text(lost));
  if (const std::uint64_t overwritten = total(run, &trace::process_info::overwritten); overwritten > 0)
    add_line(made.notes, "{} records were overwritten: gradients may be among them", count_text(overwritten));
  return made;
}

std::string blame_text(const trace::recording& run, const blame_report& report, std::size_t limit) {
  const auto& all = report.touches;
  std::string text = fmt::format("{} gradient{} touched row {} of table {}, of {} that {} was sent\n",
                                 all.empty() ? "no" : count_text(all.size()), all.size() <= 1 ? "" : "s", report.row,
                                 report.table, count_text(report.gradients), run.actor_name(report.server));
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  if (all.empty()) return text;
  auto shown = mapped(all, [](const row_gradient& one) { return &one; });
  if (shown.size() > limit) {
    // NaN first: users look for it.
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

boost::json::object blame_json(const trace::recording& run, const blame_report& report) {
  boost::json::array touches;
  // JSON has no NaN and no infinities.
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
