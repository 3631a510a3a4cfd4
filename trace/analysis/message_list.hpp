// Search for messages of a recording by actor, type, step, text, size and latency; rows and details of them.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/analysis/causality.hpp"

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
  trace::nanoseconds until = INT64_MAX;  ///< the latest begin: keeps a list of a live run from growing
  message_order order = message_order::newest;
  std::uint64_t cursor = 0;  ///< how many matches to skip
  std::uint64_t limit = 100;

  /// Reads the parameters of an address, as in docs/live-page.md. Errors: one line for the user.
  static result<message_query> read(const std::map<std::string, std::string>& parameters);
};

struct message_page {
  std::uint64_t total = 0;            ///< number of matches
  std::vector<std::uint32_t> events;  ///< indices in recording::events, in the query's order
};

/// Reads all events once: some 10 ms for a million.
message_page find_messages(const trace::recording& in, const message_query& what);

/// A row of the list: as event_json, with id, message and from if there is a message, and with flags if it was handled.
boost::json::object row_of(const trace::recording& in, const trace::event& what);

/// One message: `{id, message, handled: row, causes: [rows, nearest first], effects: [rows], ranges: [...], content:
/// {...}}`; without `handled` if its handling is not recorded.
boost::json::object message_json(const causality& in, std::uint64_t id);

}  // namespace troupe::analysis
