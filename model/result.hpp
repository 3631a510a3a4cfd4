// Errors as values: what functions of `model` return when input can be at fault.

#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe {

/// Whose fault it is; the program's exit code follows from it.
enum class fault_kind {
  input,  ///< a setting or an input file is wrong: exit code 2
  run,    ///< the run itself failed: exit code 1
};

/// One line for the user: the thing, its value, the limit, what to try.
struct fault {
  fault_kind kind = fault_kind::input;
  std::string message;
};

template <class T>
using result = tl::expected<T, fault>;

/// An input fault, ready to be returned from a function with any `result`.
inline tl::unexpected<fault> bad_input(std::string message) {
  return tl::unexpected<fault>(fault{fault_kind::input, std::move(message)});
}

/// The same for a fault of the run itself.
inline tl::unexpected<fault> run_fault(std::string message) {
  return tl::unexpected<fault>(fault{fault_kind::run, std::move(message)});
}

}  // namespace troupe
