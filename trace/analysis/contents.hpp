// Reads the recorded contents of messages: their numbers, and how two contents differ.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/tensor.hpp"
#include "trace/record/content.hpp"

namespace troupe::analysis {

/// Element `i` of an array of `type` at `numbers`, which need not be aligned.
double number_at(dtype type, const void* numbers, std::size_t i);

/// One part of a content: its name, type, shape and digest; if its bytes were recorded also min, max, mean, counts of
/// NaN, Inf and zeros, and the first few numbers.
boost::json::object peek(const trace::content_part& part);

/// The first part that differs, and how many others do; empty: none. A part that only one of them has differs. `in_a`,
/// `in_b`: names of the two for the text, as in "in A".
std::string compare_parts(const trace::content& a, const trace::content& b, std::string_view in_a,
                          std::string_view in_b);

}  // namespace troupe::analysis
