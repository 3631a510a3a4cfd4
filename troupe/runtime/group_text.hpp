// Texts about collectives, for users.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "troupe/error.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/source_location.hpp"

namespace troupe::runtime {

const char* name_of(collective_kind kind);
bool has_root(collective_kind kind);
/// Whether the call needs the input of rank `me`.
bool needs_input(const call_order& what, std::uint32_t me);

/// Describes a call, the same for all members that make the same call: `all_reduce sum [4] of float32`.
std::string description_of(const call_order& what, const group_calls& in);

/// Describes this trainer's open call: `trainer 0 calls WORDS (train.cpp:14) as its 3rd collective`.
std::string call_text(const group_calls& in, std::uint64_t number);
/// `other`: the group rank of a member with a different call.
std::string disagreement(const group_calls& in, std::uint64_t number, std::uint32_t other);
/// Describes which trainers have not made the late call, and what they have called instead, if this trainer knows.
std::string lateness(const group_calls& in, std::uint64_t number,
                     const std::map<group_name, std::shared_ptr<group_calls>>& all);

/// Throws `error` if `x` cannot be sent. `text`: its use.
void check_tensor(const tensor& x, const std::string& text);
/// Throws `error` unless `partner` is another rank of the group.
void check_partner(const group_calls& in, std::uint32_t partner, const std::string& text);
/// `trainer 0 waits for a tensor with tag 5 of trainer 1 (train.cpp:14)`.
std::string receipt_text(const group_calls& in, std::uint32_t from, std::uint32_t tag, const source_location& at);
error never_comes(const group_calls& in, std::uint32_t from, std::uint32_t tag, const source_location& at);

/// Refuses a message that no trainer would send.
[[noreturn]] void refuse(const std::string& why);

}  // namespace troupe::runtime
