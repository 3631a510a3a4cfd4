#include "actors/stage_state.hpp"

#include <algorithm>

#include "actors/failure.hpp"
#include "model/optimizer.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

namespace {

std::vector<float> part_of(const std::vector<float>& all, model::parameter_range which) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(which.first);
  return {begin, begin + static_cast<std::ptrdiff_t>(which.count)};
}

msg::tensor part_of(const msg::tensor& all, model::parameter_range which) {
  return {all.type, which.count, 1, all.bytes.part(which.first * sizeof(float), which.count * sizeof(float))};
}

bool is_column(const msg::tensor& what, std::size_t count) {
  return what.type == msg::dtype::f32 && what.rows == count && what.cols == 1 && what.consistent();
}

/// Returns a stage's part of a saved state; empty if that is of another network.
std::vector<msg::tensor> part_of_state(const std::vector<msg::tensor>& saved, const model::stage_tensors& mine,
                                       const model::stage_tensors& last, std::size_t buffers) {
  const std::size_t parameters = last.parameters.first + last.parameters.count;
  const std::size_t kept = last.buffers.first + last.buffers.count;
  if (saved.size() != 1 + buffers + (kept > 0 ? 1 : 0)) return {};
  std::vector<msg::tensor> part;
  for (std::size_t i = 0; i <= buffers; ++i) {
    if (!is_column(saved[i], parameters)) return {};
    if (i == 0 || mine.parameters.count > 0) part.push_back(part_of(saved[i], mine.parameters));
  }
  if (kept > 0 && !is_column(saved.back(), kept)) return {};
  if (mine.buffers.count > 0) part.push_back(part_of(saved.back(), mine.buffers));
  return part;
}

}  // namespace

caf::expected<stage_start> start_of_stage(const model::job& what, const model::dataset& data,
                                          const msg::trainer_position& from, std::uint32_t stage) {
  const model::hybrid_model whole(data.spec(), what);
  auto given = data.start();
  stage_start made{given ? std::move(given->dense) : whole.initial_parameters(what.seed),
                   given ? std::move(given->buffers) : std::vector<float>(), from.dense};
  if (made.parameters.size() != whole.parameter_count())
    return make_failure(errc::shape_mismatch, "{} initial dense weights for a network of {}", made.parameters.size(),
                        whole.parameter_count());
  if (what.pipeline == 1) return made;
  const auto places = model::tensors_of_stages(what, data.spec());
  const model::stage_tensors& mine = places[stage];
  made.parameters = part_of(made.parameters, mine.parameters);
  if (!made.buffers.empty()) made.buffers = part_of(made.buffers, mine.buffers);
  if (from.dense.empty()) return made;
  const auto buffers = static_cast<std::size_t>(model::state_buffers(what.dense_optimizer));
  made.saved = part_of_state(from.dense, mine, places.back(), buffers);
  if (made.saved.empty())
    return make_failure(errc::shape_mismatch, "the saved dense weights are those of another model");
  return made;
}

std::vector<msg::tensor> joined_states(const std::vector<std::vector<msg::tensor>>& stages, std::size_t buffers) {
  std::vector<std::vector<float>> whole(1 + buffers + 1);  // the network's buffers last
  for (const auto& state : stages) {
    const bool has_parameters = !state.empty() && state.front().rows > 0;
    const std::size_t of_parameters = has_parameters ? 1 + buffers : 1;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const auto numbers = state[i].as<float>();
      auto& to = whole[i < of_parameters ? i : buffers + 1];
      to.insert(to.end(), numbers.begin(), numbers.end());
    }
  }
  if (whole.back().empty()) whole.pop_back();
  std::vector<msg::tensor> all;
  for (auto& one : whole) {
    const std::uint64_t count = one.size();
    all.push_back(msg::tensor::own(count, 1, std::move(one)));
  }
  return all;
}

}  // namespace troupe::actors
