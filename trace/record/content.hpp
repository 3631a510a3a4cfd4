// A message's contents as kept in modes `full` and `payload`: digests of its parts, in `payload` also the parts.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/record/memory_budget.hpp"

namespace troupe::trace {

/// One tensor or list of a message.
struct content_part {
  std::string name;  ///< e.g. `tables[0].grad`
  std::string type;  ///< e.g. `float32`, `int64`
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t digest = 0;  ///< 64-bit XXH3 of the bytes
  std::string bytes;         ///< mode payload; else empty
};

struct content {
  std::uint64_t id = 0;     ///< the message's
  std::uint16_t actor = 0;  ///< the actor that handled it
  std::uint16_t type = 0;
  std::uint64_t fields_digest = 0;  ///< over everything except parts and header
  std::vector<content_part> parts;
  std::string fields;  ///< mode payload: everything except header and parts, in schema order; else empty
};

/// Appends `what` to `to`, in the form of docs/formats.md.
void write_content(const content& what, std::string& to);

/// Removes one content from the front of `from`; returns false if none is complete, or the budget is exceeded.
bool read_content(std::string_view& from, content& to, memory_budget& budget);

}  // namespace troupe::trace
