// Runs trainer functions without modules on servers, for tests.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tests/library/arguments.hpp"
#include "troupe/troupe.hpp"

namespace troupe::test {

/// Runs `function` on so many trainers of a program that is given these arguments.
template <class Function, class... More>
run_summary run_with(arguments given, std::uint32_t trainers, Function function, More... more) {
  cluster cluster(given.count(), given.values());
  return cluster.run(trainers, function, more...);
}

template <class Function, class... More>
run_summary run(std::uint32_t trainers, Function function, More... more) {
  return run_with({}, trainers, function, more...);
}

/// What such a run throws.
template <class Function, class... More>
std::string error_of(std::uint32_t trainers, Function function, More... more) {
  try {
    run(trainers, function, more...);
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace troupe::test
