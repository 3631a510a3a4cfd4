// The messages of a recording, as a person looks for them: by actor, type, step, text, size and latency.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/causality.hpp"
#include "base/result.hpp"

namespace troupe::analysis {

enum class message_order : std::uint8_t { newest, oldest, slowest, largest, longest_queued };

struct message_query {
  std::string actor;  ///< name of sender or receiver, or a pattern; empty: any
  std::string from;
  std::string to;
  std::string type;
  std::string text;              ///< part of a name of an actor or type, or a message's name or id
  std::string kind = "handled";  ///< or another kind of record; `all`
  std::uint64_t first_step = 0;
  std::uint64_t last_step = UINT64_MAX;
  std::uint64_t bytes_least = 0;
  trace::nanoseconds latency_least = 0;
  trace::nanoseconds until = INT64_MAX;  ///< those that begin by then: holds still what a list shows of a live run
  message_order order = message_order::newest;
  std::uint64_t cursor = 0;  ///< how many to skip
  std::uint64_t limit = 100;

  /// Reads what an address has, as in docs/live-page.md. Errors: one line for the user.
  static result<message_query> read(const std::map<std::string, std::string>& parameters);
};

struct message_page {
  std::uint64_t total = 0;            ///< that match
  std::vector<std::uint32_t> events;  ///< of recording::events, in order
};

/// Looks through all events once: some 10 ms for a million.
message_page find_messages(const trace::recording& in, const message_query& what);

/// A row of the list.
boost::json::object row_of(const trace::recording& in, const trace::event& what);

/// One message: `{id, message, handled: row, causes: [rows, nearest first], effects: [rows], ranges: [...], content:
/// {...}}`; without `handled` if its handling is not recorded.
boost::json::object message_json(const causality& in, std::uint64_t id);

}  // namespace troupe::analysis
