// What a result must have, for tests.

#pragma once

#include <stdexcept>
#include <utility>

#include "base/result.hpp"

namespace troupe {

/// The value. Without one it throws the fault's text, by which a test fails.
template <class T>
T value_of(result<T> of) {
  if (!of) throw std::runtime_error(of.error().message);
  return *std::move(of);
}

}  // namespace troupe
