// Errors that calls of the library throw.

#pragma once

#include <gtest/gtest.h>

#include <string>

#include "troupe/troupe.hpp"

namespace troupe::test {

/// Returns the text of the `error` that `call` throws; "no error" if it throws nothing.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const error& e) {
    return e.what();
  }
  return "no error";
}

/// As `error_of`, for an error that must be of kind input.
template <class Call>
std::string input_error_of(const Call& call) {
  return error_of([&] {
    try {
      call();
    } catch (const error& e) {
      EXPECT_EQ(e.kind(), error_kind::input);
      throw;
    }
  });
}

}  // namespace troupe::test

/// Expects that a statement throws an `error` with that text; the statement may contain co_await.
#define EXPECT_ERROR(statement, text)         \
  do {                                        \
    try {                                     \
      statement;                              \
      ADD_FAILURE() << "no error";            \
    } catch (const ::troupe::error& thrown) { \
      EXPECT_STREQ(thrown.what(), text);      \
    }                                         \
  } while (false)
