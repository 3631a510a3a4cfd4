// An open call of a trainer to other trainers, a collective or the receipt of a tensor, on the board. It has an entry
// of its own there, which its trainer reuses for later calls.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/record/file_format.hpp"

namespace troupe::trace {

enum class call_kind : std::uint16_t {
  collective,  ///< `text` begins with its name
  meeting,     ///< a collective that synchronizes passes of several trainers; `text` names the pass
  receipt,     ///< the receipt of a tensor
};

/// A set of trainers, by rank; those from `ranks_max` on are left out.
struct rank_set {
  static constexpr std::uint32_t ranks_max = 1024;

  void add(std::uint32_t rank) {
    if (rank < ranks_max) bits[rank / 64] |= std::uint64_t{1} << rank % 64;
  }
  bool has(std::uint32_t rank) const { return rank < ranks_max && (bits[rank / 64] >> rank % 64 & 1) != 0; }
  std::vector<std::uint32_t> ranks() const;
  std::size_t count() const { return ranks().size(); }

  bool operator==(const rank_set&) const = default;

  std::array<std::uint64_t, ranks_max / 64> bits{};
};

/// The layout in the file: little-endian numbers of 64 bits.
struct call_state {
  std::uint64_t since = 0;   ///< ticks; 0: there is no call
  std::uint64_t number = 0;  ///< collective: its number in its group, from 1; receipt: the tag
  std::uint64_t step = 0;
  std::uint64_t group = 0;     ///< a digest of the group's members in their order
  std::uint32_t instance = 0;  ///< distinguishes groups of the same members
  call_kind kind = call_kind::collective;
  std::uint16_t lacks_sums = 0;    ///< 1: all shares have come, and `missing` are those whose sums have not
  std::array<char, 80> text = {};  ///< the call; ends with a zero
  rank_set members = {};           ///< receipt: the receiver and the sender
  rank_set missing = {};           ///< trainers whose share, sum or tensor has not come

  void set_text(const std::string& value) { value.copy(text.data(), text.size() - 1); }
  /// Whether both are calls of the same collective.
  bool is_same_as(const call_state& other) const {
    return kind != call_kind::receipt && other.kind != call_kind::receipt &&
           std::tie(group, instance, number) == std::tie(other.group, other.instance, other.number);
  }
};
static_assert(sizeof(call_state) % sizeof(std::uint64_t) == 0);

/// Thread: written by its actor, read by any thread or process at any time. A reader's copy is consistent if both
/// versions are equal: a change is written from the last field to the first, and read from the first to the last.
struct board_call {
  shared<std::uint32_t> state;  ///< `state_of_calls`
  std::uint16_t actor;
  std::uint16_t reserved;
  shared<std::uint64_t> version;
  std::array<shared<std::uint64_t>, sizeof(call_state) / sizeof(std::uint64_t)> numbers;
  shared<std::uint64_t> next_version;

  static constexpr std::uint32_t state_of_calls = 4;

  void show(const call_state& what) noexcept;
  void clear() noexcept { numbers[0].store(0, std::memory_order_release); }
  bool is_free() const noexcept { return numbers[0].load(std::memory_order_relaxed) == 0; }
};
static_assert(sizeof(board_call) <= board_entry_bytes);

/// Reads the actor and its call from the bytes of a `board_call`; nullopt: there is no call, or it is being changed.
std::optional<std::pair<std::uint16_t, call_state>> read_call(const char* entry);

/// `all_reduce #26 of trainers 0..2`, `barrier #1 of trainers 0..2 in their group 2`, `recv with tag 0 of trainer 2
/// from trainer 0`.
std::string title_of(const call_state& what);

/// `trainer 1`, `trainers 0..2, 5`.
std::string trainers_text(const std::vector<std::uint32_t>& ranks);

}  // namespace troupe::trace
