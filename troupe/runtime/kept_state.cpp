#include "troupe/runtime/kept_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.hpp"
#include "model/checkpoint/manifest.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

namespace {

/// In checkpoints, marks an object whose state has no tensors.
constexpr const char* no_tensors = ".none";

}  // namespace

void kept_state::start(const msg::train& order) {
  rank_ = order.rank;
  saves_ = order.saves;
  for (std::size_t i = 0; i < order.names.size() && i < order.from.dense.size(); ++i)
    if (places_.try_emplace(order.names[i].name, restored_.size()).second)
      restored_.push_back({order.names[i].name, order.names[i].shape, order.from.dense[i]});
}

std::string kept_state::own_name(const std::string& name) const { return fmt::format("rank{}.{}", rank_, name); }

const msg::tensor& kept_state::find(const std::string& name, dtype type) const {
  const auto found = places_.find(name);
  if (found == places_.end() || restored_[found->second].numbers.type != type)
    throw error(error_kind::input,
                fmt::format("--resume: the checkpoint has no {} {}: it is of another program", name_of(type), name));
  return restored_[found->second].numbers;
}

named_tensors kept_state::restored_state(const std::string& prefix) const {
  named_tensors all;
  for (const auto& [name, lengths, numbers] : restored_) {
    if (!name.starts_with(prefix)) continue;
    const auto made = tensor_of(numbers, lengths, true);
    if (!made)
      throw error(error_kind::input, fmt::format("--resume: {} has {} dimensions; tensors have at most {}", name,
                                                 lengths.size(), shape::dimensions_max));
    all.emplace_back(name.substr(prefix.size()), *made);
  }
  return all;
}

bool kept_state::has_any(const std::string& prefix) const {
  const auto first = places_.lower_bound(prefix);
  return first != places_.end() && first->first.starts_with(prefix);
}

void kept_state::keep(const std::string& name, std::function<named_tensors()> state,
                      const std::function<void(const named_tensors&)>& load) {
  const bool fits =
      std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  if (!fits || name.empty())
    throw error(error_kind::input,
                name.empty()
                    ? "register_state: the name is empty"
                    : fmt::format("register_state: the name '{}' has other characters than letters, digits, '_' "
                                  "and '-'",
                                  printable(name)));
  const std::string prefix = own_name("kept." + name + ".");
  if (prefix.size() >= model::plain_name_max)
    throw error(error_kind::input,
                fmt::format("register_state: the name '{}' has {} characters; at most {} are possible", printable(name),
                            name.size(), model::plain_name_max - 1 - (prefix.size() - name.size())));
  const auto [kept, is_new] = kept_.emplace(name, std::move(state));
  if (!is_new)
    throw error(error_kind::input,
                fmt::format("register_state: '{}' is registered already; choose another name", name));
  if (saves_) check_parts(name, prefix, kept->second());
  if (!restores(prefix)) return;
  const named_tensors saved = restored_state(prefix);
  if (saved.size() == 1 && saved.front().first == no_tensors) return load({});
  if (saved.empty()) throw error(error_kind::input, fmt::format("--resume: the checkpoint has no state of '{}'", name));
  load(saved);
}

/// Throws `error` unless checkpoints can store the tensors of an object, whose names there begin with `prefix`.
void kept_state::check_parts(const std::string& name, const std::string& prefix, const named_tensors& parts) {
  for (const auto& [part, numbers] : parts)
    if (!model::is_plain_name(prefix + part))
      throw error(error_kind::input,
                  fmt::format("register_state: '{}' has a tensor '{}', a name that checkpoints cannot keep: it must be "
                              "letters, digits, dots, dashes and underscores, at most {}",
                              printable(name), printable(part), model::plain_name_max - prefix.size()));
}

void kept_state::hold() {
  if (is_over_) return;
  for (const auto& [name, state] : kept_) held_.insert_or_assign(name, state());
}

void kept_state::put_own(msg::save_dense& into, const std::map<std::string, std::vector<std::int64_t>>& numbers) const {
  for (const auto& [name, values] : numbers) {
    into.names.push_back({own_name(name), {values.size()}});
    into.dense.push_back(msg::tensor::own(values.size(), 1, values));
  }
  for (const auto& [name, state] : kept_) {
    named_tensors parts;
    if (!is_over_)
      parts = state();
    else if (const auto found = held_.find(name); found != held_.end())
      parts = found->second;
    if (parts.empty()) parts.emplace_back(no_tensors, tensor(shape(0)));
    for (const auto& [part, numbers_of_part] : parts) {
      const shape lengths = numbers_of_part.owner() ? numbers_of_part.shape() : shape(0);
      into.names.push_back({own_name(fmt::format("kept.{}.{}", name, part)), lengths_of(lengths)});
      into.dense.push_back(column_of(numbers_of_part.clone()));
    }
  }
}

void put_flat(msg::save_dense& into, const std::string& prefix, const std::vector<nn::parameter>& tensors,
              const std::string& suffix, const msg::tensor& flat) {
  std::size_t first = 0;
  for (const nn::parameter& one : tensors) {
    const std::size_t count = one.shape.count();
    into.names.push_back({fmt::format("{}.{}{}", prefix, one.name, suffix), lengths_of(one.shape)});
    into.dense.emplace_back(dtype::f32, count, 1, flat.bytes.part(first * sizeof(float), count * sizeof(float)));
    first += count;
  }
}

}  // namespace troupe::runtime
