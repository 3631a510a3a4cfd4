// Errors as values.

#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe {

/// The cause of a fault. It decides the program's exit code: 2 for input, else 1.
enum class fault_kind {
  input,           ///< a setting, address or file that the user gave is wrong
  run,             ///< the run itself failed
  device,          ///< a compute device failed, or the connection between devices: a new process may succeed
  unreachable,     ///< no answer (yet): a retry may succeed
  no_peer,         ///< the peer speaks another protocol, or another version of the handshake
  refused,         ///< the peer refused, with its reason
  not_trusted,     ///< wrong token, or a certificate that is missing, expired or of another authority
  lost,            ///< a link or a process of the run ended; another attempt may succeed
  address_in_use,  ///< another process listens there
};

/// `message` is one line for the user: the subject, its value, the limit, what to try.
struct fault {
  fault_kind kind = fault_kind::input;
  std::string message;
};

template <class T>
using result = tl::expected<T, fault>;

/// Returns a fault for any `result`. All of these accept a message, or a format and its arguments.
inline tl::unexpected<fault> failure(fault_kind kind, std::string message) {
  return tl::unexpected<fault>(fault{kind, std::move(message)});
}

inline tl::unexpected<fault> bad_input(std::string message) { return failure(fault_kind::input, std::move(message)); }

template <class First, class... Rest>
tl::unexpected<fault> bad_input(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return failure(fault_kind::input, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

inline tl::unexpected<fault> run_fault(std::string message) { return failure(fault_kind::run, std::move(message)); }

template <class First, class... Rest>
tl::unexpected<fault> run_fault(fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest) {
  return failure(fault_kind::run, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

}  // namespace troupe

/// `TROUPE_TRY(name, expression);` declares `name`, a reference to the value of a `result`; if there is a fault, the
/// function returns it. For functions that return a `result` of any type.
#define TROUPE_TRY(name, ...)                                                      \
  auto name##_or_fault = __VA_ARGS__;                                              \
  if (!name##_or_fault) return tl::unexpected(std::move(name##_or_fault).error()); \
  auto& name = *name##_or_fault

/// `TROUPE_SET(target, expression);` moves the value of a `result` to `target`, or returns its fault as TROUPE_TRY
/// does.
#define TROUPE_SET(target, ...)                                        \
  do {                                                                 \
    auto or_fault = __VA_ARGS__;                                       \
    if (!or_fault) return tl::unexpected(std::move(or_fault).error()); \
    target = *std::move(or_fault);                                     \
  } while (false)

/// `TROUPE_DO(expression);` returns the fault of a `result` whose value is not needed, if it has one.
#define TROUPE_DO(...)                                                 \
  do {                                                                 \
    auto or_fault = __VA_ARGS__;                                       \
    if (!or_fault) return tl::unexpected(std::move(or_fault).error()); \
  } while (false)
