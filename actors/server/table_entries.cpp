#include "actors/server/table_entries.hpp"

#include <algorithm>
#include <set>

#include "model/checkpoint/manifest.hpp"

namespace troupe::actors {

namespace {

bool fits(const msg::tensor& entry, const table_array& to, std::int64_t rows) {
  return entry.consistent() && entry.rows == static_cast<std::uint64_t>(rows) && entry.cols == to.columns &&
         (entry.type == to.type || entry.type == dtype::f32);
}

}  // namespace

caf::error check_entries(const msg::state_entries& entries, std::span<const table_array> own,
                         const model::embedding_bag& table) {
  const std::string text = model::description_of(table.options());
  std::set<std::string> seen;
  for (const auto& [name, numbers] : entries) {
    const auto to = std::ranges::find(own, name, &table_array::name);
    if (to == own.end() && model::is_optimizer_state(name))
      return make_failure(errc::bad_input,
                          "{} has no entry '{}': its optimizer, {}, has no such state; make the optimizer whose state "
                          "it is first, or load the weight alone",
                          text, name, model::to_string(table.options().optimizer));
    if (to == own.end()) return make_failure(errc::bad_input, "{} has no entry '{}'", text, name);
    if (!fits(numbers, *to, table.rows()))
      return make_failure(errc::shape_mismatch, "{}: entry '{}' is [{}, {}] of {}, expected [{}, {}] of {}", text, name,
                          numbers.rows, numbers.cols, name_of(numbers.type), table.rows(), to->columns,
                          name_of(to->type));
    if (!seen.insert(name).second) return make_failure(errc::bad_input, "{}: entry '{}' is there twice", text, name);
  }
  const bool has_state = std::ranges::any_of(seen, [](const auto& name) { return model::is_optimizer_state(name); });
  for (const table_array& one : own)
    if (!seen.contains(one.name) && (has_state || !model::is_optimizer_state(one.name)))
      return make_failure(errc::bad_input, "{}: entry '{}' is missing", text, one.name);
  return {};
}

}  // namespace troupe::actors
