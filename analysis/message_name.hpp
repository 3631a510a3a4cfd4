// Messages in a recording by the protocol's types: a message that is renamed there is an error of compilation here.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analysis/trace.hpp"
#include "protocol/message_types.hpp"

namespace troupe::analysis {

/// Whether `name` is that of one of these types.
template <class... Messages>
constexpr bool is_any_of(std::string_view name) {
  return ((name == protocol::message_name_v<Messages>) || ...);
}

/// The number that `run` has for messages of this type; nothing if it has none.
template <class Message>
std::optional<std::uint16_t> type_number(const trace::recording& run) {
  const auto found =
      std::ranges::find_if(run.types, [](const auto& one) { return one.second == protocol::message_name_v<Message>; });
  return found == run.types.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace troupe::analysis
