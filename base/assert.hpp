// Assertions, which are also checked in release builds. A failure is a bug of Troupe, never caused by a user, a file or
// a peer.

#pragma once

namespace troupe {

/// Prints file, line and condition to stderr, and aborts. Any thread.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace troupe

#define TROUPE_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::troupe::assertion_failed(#condition, __FILE__, __LINE__))
