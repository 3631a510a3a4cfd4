#include "cluster/links/dead_after.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>

namespace troupe::links {

namespace {

constexpr const char* item_name = "link.dead-after-ms";

}  // namespace

hello with_dead_after(hello about_me, std::chrono::milliseconds dead_after) {
  about_me.emplace_back(item_name, std::to_string(dead_after.count()));
  return about_me;
}

std::optional<std::chrono::milliseconds> take_dead_after(hello& theirs) {
  const auto item = std::ranges::find(theirs, item_name, &hello::value_type::first);
  if (item == theirs.end()) return std::nullopt;
  const std::string text = std::move(item->second);
  theirs.erase(item);
  std::uint32_t milliseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  if (error != std::errc{} || end != text.data() + text.size() || milliseconds == 0) return std::nullopt;
  return std::chrono::milliseconds(milliseconds);
}

std::chrono::milliseconds rest_between_pings(std::chrono::milliseconds mine,
                                             std::optional<std::chrono::milliseconds> theirs) {
  constexpr std::chrono::milliseconds short_timeout{400};
  constexpr std::chrono::milliseconds shortest{1};
  return std::max(std::min(mine, theirs.value_or(short_timeout)) / 5, shortest);
}

}  // namespace troupe::links
