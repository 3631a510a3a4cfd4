// Reads messages and actors as users write them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "trace/analysis/causality.hpp"

namespace troupe::analysis {

/// The message that `text` names and that was recorded as handled, sent or arrived: `trainer 0 #417` as it is shown,
/// `trainer-0:417`, `t0:417`, `s1:33`, or the id as a number. Errors: not the name of a message, no such actor, no such
/// message; they say which exist.
result<std::uint64_t> find_message(const causality& of, std::string_view text);

/// A message's id in addresses and answers: sender, dot, sequence number, as in `3.417`. JSON's numbers hold 53 bits.
std::string write_id(std::uint64_t id);
std::optional<std::uint64_t> read_id(std::string_view text);

/// The actor that `text` names: `trainer 0` as it is shown, `trainer-0`, `t0`. Errors: no such actor; it says which
/// exist.
result<std::uint16_t> find_actor(const trace::recording& run, std::string_view text);

}  // namespace troupe::analysis
