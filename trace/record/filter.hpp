// Selects what is recorded of a run: `actor=server *,type=lookup,steps=10-20,count=1000`.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace troupe::trace {

/// Whether `text` matches `pattern`, in which * stands for any number of characters, including none.
bool matches(std::string_view pattern, std::string_view text);

struct filter {
  /// Patterns; one of them must match. Empty: all match.
  std::vector<std::string> actors;
  std::vector<std::string> types;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = UINT64_MAX;
  /// Recording ends after this many records.
  std::uint64_t count = UINT64_MAX;

  bool takes_actor(std::string_view name) const;
  bool takes_type(std::string_view name) const;
  bool takes_step(std::uint64_t step) const { return step >= first_step && step <= last_step; }
  bool takes_all() const;
};

/// Parses a filter: comma-separated items `actor=PATTERN`, `type=PATTERN`, `steps=A-B` or `steps=A`, `count=N`; `actor`
/// and `type` may be repeated. Errors: what is wrong, without the option's name.
result<filter> parse_filter(std::string_view text);

}  // namespace troupe::trace
