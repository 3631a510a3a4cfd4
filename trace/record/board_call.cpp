#include "trace/record/board_call.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/text.hpp"

namespace troupe::trace {

std::vector<std::uint32_t> rank_set::ranks() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t word = 0; word < bits.size(); ++word)
    for (std::uint64_t left = bits[word]; left != 0; left &= left - 1)
      all.push_back(word * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
  return all;
}

void board_call::show(const call_state& what) noexcept {
  std::array<std::uint64_t, sizeof(call_state) / sizeof(std::uint64_t)> values{};
  std::memcpy(values.data(), &what, sizeof what);
  const std::uint64_t next = version.load(std::memory_order_relaxed) + 1;
  next_version.store(next, std::memory_order_relaxed);
  for (std::size_t i = values.size(); i-- > 0;) {
    std::atomic_thread_fence(std::memory_order_release);
    numbers[i].store(values[i], std::memory_order_relaxed);
  }
  version.store(next, std::memory_order_release);
}

std::optional<std::pair<std::uint16_t, call_state>> read_call(const char* entry) {
  const auto number_at = [entry]<class T>(std::size_t offset, T value) {
    std::memcpy(&value, entry + offset, sizeof value);
    return value;
  };
  call_state found;
  std::memcpy(static_cast<void*>(&found), entry + offsetof(board_call, numbers), sizeof found);
  const bool is_whole = number_at(offsetof(board_call, version), std::uint64_t{}) ==
                        number_at(offsetof(board_call, next_version), std::uint64_t{});
  if (!is_whole || found.since == 0 || found.kind > call_kind::receipt) return std::nullopt;
  const std::string text = harmless(std::string(found.text.data(), strnlen(found.text.data(), found.text.size())));
  found.text = {};
  found.set_text(text);
  return std::pair(number_at(offsetof(board_call, actor), std::uint16_t{}), found);
}

std::string trainers_text(const std::vector<std::uint32_t>& ranks) {
  std::string list;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last + 1) {
    for (last = first; last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1;) ++last;
    if (last == first + 1) last = first;  // two are listed one by one
    list += list.empty() ? "" : ", ";
    list += last == first ? std::to_string(ranks[first]) : fmt::format("{}..{}", ranks[first], ranks[last]);
  }
  return fmt::format("trainer{} {}", ranks.size() == 1 ? "" : "s", list);
}

std::string title_of(const call_state& what) {
  const std::string text(what.text.data());
  const auto members = what.members.ranks();
  if (what.kind == call_kind::receipt) {
    const auto from = what.missing.ranks();
    std::vector<std::uint32_t> receiver;
    for (const std::uint32_t rank : members)
      if (!what.missing.has(rank)) receiver.push_back(rank);
    return fmt::format("{} with tag {} of {} from {}", text, what.number, trainers_text(receiver), trainers_text(from));
  }
  const std::string name = what.kind == call_kind::meeting ? text : text.substr(0, text.find(' '));
  // The users' groups of the same members count from 0 or 1; the library's own groups, from the other end.
  const bool is_again = what.instance > 1 && what.instance < (std::uint32_t{1} << 31);
  const std::string which = is_again ? fmt::format(" in their group {}", what.instance) : "";
  return fmt::format("{} #{} of {}{}", name, what.number, trainers_text(members), which);
}

}  // namespace troupe::trace
