#include "model/part_tensors.hpp"

#include <algorithm>

namespace troupe::model {

namespace {

/// Calls `copy(index in the whole, index in the part, count)` for each run of numbers of a part.
template <class F>
void for_each_run(const part_tensors& part, const F& copy) {
  std::size_t in_part = 0;
  for (const tensor_place& one : part.parameters)
    for (std::size_t row = 0; row < one.rows; ++row, in_part += one.cols)
      copy(one.first + row * one.stride, in_part, one.cols);
}

tensor_place place_in_slice(const nn::parameter& whole, const nn::parameter& mine, std::uint32_t slice) {
  const std::size_t count = mine.count();
  if (mine.shape == whole.shape) return {whole.first, 1, count, 0, false};
  if (mine.shape[0] != whole.shape[0]) return {whole.first + slice * count, 1, count, 0, true};
  return {whole.first + slice * mine.shape[1], mine.shape[0], mine.shape[1], whole.shape[1], true};
}

}  // namespace

std::vector<tensor_place> places_of_slice(std::span<const nn::parameter> whole, std::span<const nn::parameter> mine,
                                          std::uint32_t slice) {
  std::vector<tensor_place> places;
  for (std::size_t i = 0; i < mine.size(); ++i) places.push_back(place_in_slice(whole[i], mine[i], slice));
  return places;
}

std::vector<nn::parameter_range> counted_once(const part_tensors& of, std::uint32_t slice) {
  std::vector<nn::parameter_range> counted;
  std::size_t first = 0;
  for (const tensor_place& one : of.parameters) {
    if (slice == 0 || one.is_cut) counted.push_back({first, one.count()});
    first += one.count();
  }
  return counted;
}

std::vector<float> part_of(std::span<const float> whole, const part_tensors& part) {
  std::vector<float> made;
  for_each_run(part, [&](std::size_t in_whole, std::size_t, std::size_t count) {
    const auto run = whole.subspan(in_whole, count);
    made.insert(made.end(), run.begin(), run.end());
  });
  return made;
}

void put_part(std::span<const float> mine, const part_tensors& part, std::span<float> whole) {
  for_each_run(part, [&](std::size_t in_whole, std::size_t in_part, std::size_t count) {
    std::ranges::copy(mine.subspan(in_part, count), whole.subspan(in_whole, count).begin());
  });
}

}  // namespace troupe::model
