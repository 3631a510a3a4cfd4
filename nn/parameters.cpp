#include "nn/parameters.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"

namespace troupe::nn {

std::size_t count_of(std::span<const parameter> tensors) {
  std::size_t all = 0;
  for (const parameter& one : tensors)
    if (__builtin_add_overflow(all, one.count(), &all))
      throw error(error_kind::input,
                  fmt::format("tensors up to {} {} have more numbers than any memory; try smaller ones", one.name,
                              to_string(one.shape)));
  return all;
}

std::vector<parameter> placed(std::vector<parameter> tensors) {
  std::size_t first = 0;
  for (parameter& one : tensors) one.first = std::exchange(first, first + one.count());
  return tensors;
}

void append_named(std::vector<parameter>& to, const std::string& prefix, std::vector<parameter> tensors) {
  for (parameter& one : tensors) to.push_back({fmt::format("{}.{}", prefix, one.name), one.shape});
}

}  // namespace troupe::nn
