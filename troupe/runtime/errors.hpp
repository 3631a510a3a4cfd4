// Converts errors of actors to the library's exceptions.

#pragma once

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "base/exception_text.hpp"
#include "base/fiber.hpp"
#include "protocol/errors.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

inline error to_error(const caf::error& why) {
  using protocol::errc;
  const bool input = why == errc::bad_input || why == errc::bad_index || why == errc::shape_mismatch;
  const error_kind kind = input ? error_kind::input : why == errc::timeout ? error_kind::deadline : error_kind::run;
  return {kind, protocol::describe(why), protocol::is_transient(why)};
}

/// Ends a trainer function when the run stops. Not a std::exception, so that handlers of those do not catch it.
struct run_stopped {};

/// Returns the error for an exception of a callback of `future::then`; none if the exception only stops the run.
inline std::optional<error> error_in_callback(const std::exception_ptr& thrown) {
  const auto failed = [](const std::string& text, bool is_transient = false) {
    return error(error_kind::run, "a callback given to then() threw: " + text, is_transient);
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const run_stopped&) {
    return std::nullopt;
  } catch (const fiber::unwinding&) {
    return std::nullopt;
  } catch (const error& e) {
    return failed(e.what(), e.is_transient());
  } catch (const std::exception& e) {
    return failed(troupe::text_of(e));
  } catch (...) {
    return failed("an exception of unknown type");
  }
}

/// The error of a call without an answer in time. `what`: such as `counter.add on server 0`.
inline error not_in_time(const std::string& what, std::chrono::duration<double> allowed) {
  return {error_kind::deadline, fmt::format("{} did not return within {} s", what, allowed.count())};
}

}  // namespace troupe::runtime
