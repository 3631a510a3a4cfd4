// Finds where two recorded runs begin to differ.

#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/alignment.hpp"

namespace troupe::analysis {

/// How a message differs between the runs; count: it does not.
enum class difference : std::uint8_t { missing, extra, order, size, contents, count };

struct message_difference {
  difference what = difference::missing;
  message_pair message;
  message_pair overtaken_by;  ///< order: the message that B handled before it and A after it
  std::string detail;         ///< size, contents: what differs
};

struct type_differences {
  std::string type;
  std::uint64_t compared = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(difference::count)> found{};
  std::optional<std::uint64_t> first_step;  ///< the first step with a difference
};

/// Messages of a type at a receiver whose handling took longer, or less long, in B.
struct time_difference {
  std::uint16_t receiver = 0;  ///< A's number
  std::uint16_t type = 0;      ///< A's number
  std::uint64_t messages = 0;
  trace::nanoseconds median_a = 0;  ///< time to handle one
  trace::nanoseconds median_b = 0;
  message_pair worst;  ///< the one with the largest change in the direction of the medians' change
};

struct diff {
  std::optional<message_difference> first;  ///< in A's causal order
  std::uint64_t equal_before = 0;           ///< how many messages, all equal, come before it in that order
  std::uint64_t compared = 0;
  bool with_contents = false;           ///< both recordings hold digests of contents
  std::vector<type_differences> types;  ///< those with differences; by first step
  std::vector<time_difference> times;   ///< by change of the median times number of messages, the largest first
  std::vector<std::string> notes;       ///< which settings differ; what was not compared and why

  bool same() const { return !first && times.empty(); }
};

struct diff_options {
  /// True: order counts at all actors. False: it counts among messages of one sender, and at servers whose rows depend
  /// on it because lookups need not wait for all gradients (async, ssp); there it does not count between two messages
  /// that only read.
  bool any_order = false;
  /// By how many percent medians of times may differ; nullopt: times are not compared.
  std::optional<double> timing;
};

/// Compares two recordings message by message, as `align` pairs them. Requires: the recordings outlive the result.
diff compare(const trace::recording& a, const trace::recording& b, const diff_options& how);

/// Text for a terminal; at most `limit` rows of each list.
std::string diff_text(const trace::recording& a, const trace::recording& b, const diff& what, std::size_t limit);
/// All fields; times in ns.
boost::json::object diff_json(const trace::recording& a, const trace::recording& b, const diff& what);

const char* name_of(difference what);

}  // namespace troupe::analysis
