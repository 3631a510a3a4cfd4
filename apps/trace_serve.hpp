// `troupe trace serve`: the live page over what a run has recorded, or records.

#pragma once

#include <optional>
#include <string>

#include "apps/console.hpp"
#include "base/result.hpp"
#include "trace/recording.hpp"

namespace troupe::apps {

struct serve_order {
  trace::sources from;
  std::optional<std::string> port;        ///< as given; none: any that is free
  std::optional<std::string> listen;      ///< host; none: this machine's loopback
  std::optional<std::string> token;       ///< on the command line, where all users of the machine can read it
  std::optional<std::string> token_file;  ///< neither: what TROUPE_PAGE_TOKEN says, else one that nobody else has
};

/// Prints the page's address and serves it until SIGINT or SIGTERM. Faults of kind input: an option is wrong, or there
/// is nothing to read; of kind run: it cannot listen there.
result<int> serve_trace(const serve_order& order, console& out);

}  // namespace troupe::apps
