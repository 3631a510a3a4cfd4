// Messages in a recording by the protocol's types: a message that is renamed there is an error of compilation here.

#pragma once

#include <algorithm>
#include <caf/type_id.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analysis/trace.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::analysis {

/// What recordings call messages of this type, as in `gradient`.
template <class Message>
constexpr std::string_view message_name = [] {
  constexpr std::string_view name(caf::type_name_v<Message>.data(), caf::type_name_v<Message>.size());
  return name.substr(name.rfind(':') + 1);
}();

/// Whether `name` is that of one of these types.
template <class... Messages>
constexpr bool is_any_of(std::string_view name) {
  return ((name == message_name<Messages>) || ...);
}

/// The number that `run` has for messages of this type; nothing if it has none.
template <class Message>
std::optional<std::uint16_t> type_number(const recording& run) {
  const auto found =
      std::ranges::find_if(run.types, [](const auto& one) { return one.second == message_name<Message>; });
  return found == run.types.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace troupe::analysis
