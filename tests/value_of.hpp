// Unwraps results in tests.

#pragma once

#include <stdexcept>
#include <utility>

#include "base/result.hpp"

namespace troupe {

/// Returns the value. Throws the fault's text without one, which fails the test.
template <class T>
T value_of(result<T> of) {
  if (!of) throw std::runtime_error(of.error().message);
  return *std::move(of);
}

}  // namespace troupe
