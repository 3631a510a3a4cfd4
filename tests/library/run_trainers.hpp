// Runs trainer functions that need no modules on servers.

#pragma once

#include <cstdint>
#include <string>

#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "troupe/troupe.hpp"

namespace troupe::test {

/// Runs `function` on `trainers` trainers of a program with these arguments.
template <class Function, class... More>
run_summary run_with(arguments given, std::uint32_t trainers, Function function, More... more) {
  cluster cluster(given.count(), given.values());
  return cluster.run(trainers, function, more...);
}

template <class Function, class... More>
run_summary run(std::uint32_t trainers, Function function, More... more) {
  return run_with({}, trainers, function, more...);
}

/// Returns the error of a run.
template <class Function, class... More>
std::string error_of(std::uint32_t trainers, Function function, More... more) {
  return error_of([&] { run(trainers, function, more...); });
}

}  // namespace troupe::test
