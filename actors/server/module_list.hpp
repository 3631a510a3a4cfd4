// How a server runs a function for several of its modules, one after another or side by side.

#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "actors/server/remote_module.hpp"
#include "kernels/idle_threads.hpp"

namespace troupe::actors {

/// Calls `what(i)` for each i below `count`; if `side_by_side`, also on idle threads. Returns the first error by index.
template <class F>
caf::error first_error(std::size_t count, bool side_by_side, F what) {
  if (!side_by_side) {
    for (std::size_t i = 0; i < count; ++i)
      if (auto error = what(i)) return error;
    return {};
  }
  std::vector<caf::error> errors(count);
  kernels::in_parts(count, [&](std::size_t i) { errors[i] = what(i); });
  const auto first = std::ranges::find_if(errors, [](const caf::error& one) { return static_cast<bool>(one); });
  return first == errors.end() ? caf::error() : std::move(*first);
}

/// A module and its number. Short lists need no allocation, since steps can be short.
struct hosted {
  std::uint64_t number;
  remote_module* module;
};
constexpr std::size_t few_modules = 8;
using module_list = boost::container::small_vector<hosted, few_modules>;

inline module_list all_of(const std::map<std::uint64_t, std::unique_ptr<remote_module>>& modules) {
  module_list all;
  for (const auto& [number, module] : modules) all.push_back({number, module.get()});
  return all;
}

inline bool run_on_any_thread(const module_list& modules) {
  return modules.size() > 1 &&
         std::ranges::all_of(modules, [](const hosted& one) { return one.module->runs_on_any_thread(); });
}

}  // namespace troupe::actors
