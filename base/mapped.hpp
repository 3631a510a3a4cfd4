// A vector of what a function makes of each element of a range, as std::ranges::to makes of a view in C++23.

#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace troupe {

/// Calls `make`, a function or a pointer to a member, with each element in order. `T`: of the vector's elements; void:
/// what `make` returns.
template <class T = void, std::ranges::input_range Range, class Make>
auto mapped(Range&& from, Make make) {
  using made_type = std::remove_cvref_t<std::invoke_result_t<Make&, std::ranges::range_reference_t<Range>>>;
  std::vector<std::conditional_t<std::is_void_v<T>, made_type, T>> all;
  if constexpr (std::ranges::sized_range<Range>) all.reserve(std::ranges::size(from));
  for (auto&& one : from) all.emplace_back(std::invoke(make, one));
  return all;
}

}  // namespace troupe
