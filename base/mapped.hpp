// Maps a range to a vector, as a transformed view with std::ranges::to in C++23.

#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace troupe {

/// Calls `make`, a function or a pointer to a member, for each element in order. `T`: the type of the vector's
/// elements; void: the return type of `make`.
template <class T = void, std::ranges::input_range Range, class Make>
auto mapped(Range&& from, Make make) {
  using made_type = std::remove_cvref_t<std::invoke_result_t<Make&, std::ranges::range_reference_t<Range>>>;
  std::vector<std::conditional_t<std::is_void_v<T>, made_type, T>> all;
  if constexpr (std::ranges::sized_range<Range>) all.reserve(std::ranges::size(from));
  for (auto&& one : from) all.emplace_back(std::invoke(make, one));
  return all;
}

}  // namespace troupe
