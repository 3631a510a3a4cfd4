// What a message held, as the modes `full` and `payload` keep it: digests of its parts, and if asked for the parts.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/memory_budget.hpp"

namespace troupe::trace {

/// One tensor or list of a message.
struct content_part {
  std::string name;  ///< as in `tables[0].grad`
  std::string type;  ///< as in `float32`, `int64`
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t digest = 0;  ///< XXH3, 64 bits, of the bytes
  std::string bytes;         ///< mode payload; else empty
};

struct content {
  std::uint64_t id = 0;     ///< of the message
  std::uint16_t actor = 0;  ///< who handled it
  std::uint16_t type = 0;
  std::uint64_t fields_digest = 0;  ///< of everything else but the header
  std::vector<content_part> parts;
  std::string fields;  ///< mode payload: everything but header and parts, as the schema orders it; else empty
};

/// Appends `what` to `to`, in the form of docs/formats.md.
void write_content(const content& what, std::string& to);

/// Takes a content off the front of `from`; false if there is no whole one, or the budget is exceeded.
bool read_content(std::string_view& from, content& to, memory_budget& budget);

}  // namespace troupe::trace
