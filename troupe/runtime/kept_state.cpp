#include "troupe/runtime/kept_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/error.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

void kept_state::start(const msg::train& order) {
  rank_ = order.rank;
  for (std::size_t i = 0; i < order.names.size() && i < order.from.dense.size(); ++i)
    restored_[order.names[i].name] = {order.names[i].shape, order.from.dense[i]};
}

std::string kept_state::own_name(const std::string& name) const { return fmt::format("rank{}.{}", rank_, name); }

const msg::tensor& kept_state::find(const std::string& name, msg::dtype type) const {
  const auto found = restored_.find(name);
  if (found == restored_.end() || found->second.second.type != type)
    throw error(error_kind::input,
                fmt::format("--resume: the checkpoint has no {} {}: it is of another program", name_of(type), name));
  return found->second.second;
}

named_tensors kept_state::restored_state(const std::string& prefix) const {
  named_tensors all;
  for (const auto& [name, saved] : restored_)
    if (name.starts_with(prefix)) all.emplace_back(name.substr(prefix.size()), to_tensor(saved.second, saved.first));
  return all;
}

void kept_state::keep(const std::string& name, std::function<named_tensors()> state,
                      const std::function<void(const named_tensors&)>& load) {
  if (!kept_.emplace(name, std::move(state)).second)
    throw error(error_kind::input, fmt::format("keep_state: '{}' is kept already; choose another name", name));
  if (!is_resumed()) return;
  const named_tensors saved = restored_state(own_name("kept." + name + "."));
  if (saved.empty()) throw error(error_kind::input, fmt::format("--resume: the checkpoint has no state of '{}'", name));
  load(saved);
}

void kept_state::put_own(msg::save_dense& into, const std::map<std::string, std::vector<std::int64_t>>& numbers) const {
  for (const auto& [name, values] : numbers) {
    into.names.push_back({own_name(name), {values.size()}});
    into.dense.push_back(msg::tensor::own(values.size(), 1, values));
  }
  for (const auto& [name, state] : kept_)
    for (const auto& [part, numbers_of_part] : state()) {
      if (numbers_of_part.count() == 0)
        throw error(error_kind::input, fmt::format("the state of '{}': {} is empty", name, part));
      into.names.push_back({own_name(fmt::format("kept.{}.{}", name, part)), lengths_of(numbers_of_part.shape())});
      into.dense.push_back(copy_of(numbers_of_part));
    }
}

void put_flat(msg::save_dense& into, const std::string& prefix, const std::vector<nn::parameter>& tensors,
              const std::string& suffix, const msg::tensor& flat) {
  std::size_t first = 0;
  for (const nn::parameter& one : tensors) {
    const std::size_t count = one.shape.count();
    into.names.push_back({fmt::format("{}.{}{}", prefix, one.name, suffix), lengths_of(one.shape)});
    into.dense.emplace_back(msg::dtype::f32, count, 1, flat.bytes.part(first * sizeof(float), count * sizeof(float)));
    first += count;
  }
}

}  // namespace troupe::runtime
