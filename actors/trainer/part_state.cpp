#include "actors/trainer/part_state.hpp"

#include <algorithm>
#include <span>

#include "actors/common/failure.hpp"
#include "base/assert.hpp"
#include "base/mapped.hpp"
#include "model/optimizer.hpp"

namespace troupe::actors {

namespace {

std::vector<float> range_of(std::span<const float> whole, nn::parameter_range which) {
  const auto mine = whole.subspan(which.first, which.count);
  return {mine.begin(), mine.end()};
}

msg::tensor column(std::vector<float> numbers) {
  const std::uint64_t count = numbers.size();
  return msg::tensor::own(count, 1, std::move(numbers));
}

bool is_column(const msg::tensor& what, std::size_t count) {
  return what.type == dtype::f32 && what.rows == count && what.cols == 1 && what.consistent();
}

/// Returns a part of a saved state; empty if it belongs to another network.
std::vector<msg::tensor> part_of_state(const std::vector<msg::tensor>& saved, const model::network_parts& of,
                                       const model::part_tensors& mine, std::size_t buffers) {
  if (saved.size() != 1 + buffers + (of.buffers > 0 ? 1 : 0)) return {};
  std::vector<msg::tensor> part;
  for (std::size_t i = 0; i <= buffers; ++i) {
    if (!is_column(saved[i], of.parameters)) return {};
    if (i == 0 || !mine.parameters.empty()) part.push_back(column(model::part_of(saved[i].as<float>(), mine)));
  }
  if (of.buffers > 0 && !is_column(saved.back(), of.buffers)) return {};
  if (mine.buffers.count > 0) part.push_back(column(range_of(saved.back().as<float>(), mine.buffers)));
  return part;
}

}  // namespace

caf::expected<part_start> start_of_part(const model::job& what, const model::dataset& data,
                                        const msg::trainer_position& from, std::uint32_t part) {
  const model::hybrid_model whole(data.spec(), what);
  const std::size_t count = nn::count_of(whole.parameters());
  auto given = data.start();
  part_start made{given ? std::move(given->dense) : nn::initial_numbers(whole, what.seed).parameters,
                  given ? std::move(given->buffers) : std::vector<float>(), from.dense};
  if (made.parameters.size() != count)
    return make_failure(errc::shape_mismatch, "{} initial dense weights for a network of {}", made.parameters.size(),
                        count);
  if (what.parts() == 1) return made;
  const model::network_parts all = model::parts_of_network(what, data.spec());
  const model::part_tensors& mine = all.parts[part];
  made.parameters = model::part_of(made.parameters, mine);
  if (!made.buffers.empty()) made.buffers = range_of(made.buffers, mine.buffers);
  if (from.dense.empty()) return made;
  const auto buffers = static_cast<std::size_t>(model::state_buffers(what.dense_optimizer));
  made.saved = part_of_state(from.dense, all, mine, buffers);
  if (made.saved.empty())
    return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
  return made;
}

std::vector<msg::tensor> joined_states(const model::network_parts& of,
                                       const std::vector<std::vector<msg::tensor>>& states, std::size_t buffers) {
  TROUPE_ASSERT(states.size() == of.parts.size());
  std::vector<std::vector<float>> whole(1 + buffers, std::vector<float>(of.parameters));
  if (of.buffers > 0) whole.emplace_back(of.buffers);
  for (std::size_t p = 0; p < states.size(); ++p) {
    const model::part_tensors& part = of.parts[p];
    for (std::size_t i = 0; i <= buffers && !part.parameters.empty(); ++i)
      model::put_part(states[p][i].as<float>(), part, whole[i]);
    if (part.buffers.count > 0)
      std::ranges::copy(states[p].back().as<float>(),
                        whole.back().begin() + static_cast<std::ptrdiff_t>(part.buffers.first));
  }
  return mapped(whole, [](auto& one) { return column(std::move(one)); });
}

}  // namespace troupe::actors
