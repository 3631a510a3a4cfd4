// Where two recorded runs begin to differ.

#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/alignment.hpp"

namespace troupe::analysis {

/// How a message of one run differs from the other run's.
enum class difference : std::uint8_t { missing, extra, order, size, contents, count };

struct message_difference {
  difference what = difference::missing;
  message_pair message;
  message_pair overtaken_by;  ///< order: B handled this one before it, A after it
  std::string detail;         ///< size, contents: which part, and how
};

struct type_differences {
  std::string type;
  std::uint64_t compared = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(difference::count)> found{};
  std::optional<std::uint64_t> first_step;  ///< of those that differ
};

/// Messages of a type at a receiver that took longer, or less long, in B.
struct time_difference {
  std::uint16_t receiver = 0;  ///< as A numbers it
  std::uint16_t type = 0;      ///< likewise
  std::uint64_t messages = 0;
  trace::nanoseconds median_a = 0;  ///< of what the receiver worked on one
  trace::nanoseconds median_b = 0;
  message_pair worst;  ///< where B took longest compared to A; if B is faster, the other way round
};

struct diff {
  std::optional<message_difference> first;  ///< in A's causal order
  std::uint64_t equal_before = 0;           ///< messages before it in that order, none of which differs
  std::uint64_t compared = 0;
  bool with_contents = false;           ///< both hold digests
  std::vector<type_differences> types;  ///< of which some differ; by first step
  std::vector<time_difference> times;   ///< most time first, the median's change times the number of messages
  std::vector<std::string> notes;       ///< which settings differ; what was not compared, and why

  bool same() const { return !first && times.empty(); }
};

struct diff_options {
  /// Order counts at all actors. Otherwise where it matters: among messages of one sender, and among those to a server
  /// whose rows depend on it, which is where lookups need not wait for all gradients (async, ssp). There, of two that
  /// only read, neither matters to the other.
  bool any_order = false;
  /// By how much medians of times may differ, in percent; nothing: times are not compared.
  std::optional<double> timing;
};

/// Compares two recordings message by message, as `align` pairs them. The recordings must outlive it.
diff compare(const trace::recording& a, const trace::recording& b, const diff_options& how);

/// For a terminal; at most `limit` rows of each list.
std::string diff_text(const trace::recording& a, const trace::recording& b, const diff& what, std::size_t limit);
/// All of it; times in ns.
boost::json::object diff_json(const trace::recording& a, const trace::recording& b, const diff& what);

const char* name_of(difference what);

}  // namespace troupe::analysis
