// `troupe trace serve`: serves the live page of a recorded run, or of one under way.

#pragma once

#include <optional>
#include <string>

#include "apps/console.hpp"
#include "base/result.hpp"
#include "trace/recording.hpp"

namespace troupe::apps {

struct serve_order {
  trace::sources from;
  std::optional<std::string> port;        ///< null: any free one
  std::optional<std::string> listen;      ///< host; null: this machine's loopback
  std::optional<std::string> token;       ///< from the command line, where all users of the machine can read it
  std::optional<std::string> token_file;  ///< without either: TROUPE_PAGE_TOKEN, else a random token
};

/// Prints the page's address and serves it until SIGINT or SIGTERM. Faults of kind input: a wrong option, or nothing to
/// read; of kind run: it cannot listen there.
result<int> serve_trace(const serve_order& order, console& out);

}  // namespace troupe::apps
