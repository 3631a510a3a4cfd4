#include "troupe/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

constexpr const char* kinds[] = {"a bool", "an integer", "a number", "a text"};

std::string words_of(const arg::value& value) {
  return std::visit([&](const auto& one) { return fmt::format("{} ({})", one, kinds[value.index()]); }, value);
}

}  // namespace

std::int64_t arg::to_signed(std::uint64_t what) const {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (!std::in_range<std::int64_t>(what))
    throw error(error_kind::input,
                fmt::format("the argument {} is {}: at most {} can be; give it as a text", name_, what, most));
  return static_cast<std::int64_t>(what);
}

arguments::arguments(std::string type, std::vector<arg> all) : type_(std::move(type)), all_(std::move(all)) {
  for (auto one = all_.begin(); one != all_.end(); ++one)
    if (std::find_if(all_.begin(), one, [&](const arg& other) { return other.name() == one->name(); }) != one)
      throw error(error_kind::input,
                  fmt::format("{}: the argument {} is given twice; give it once", type_, one->name()));
}

const arg* arguments::find(const std::string& name, kind wanted, bool required) const {
  asked_.push_back(name);
  const auto found = std::ranges::find(all_, name, &arg::name);
  if (found == all_.end()) {
    if (!required) return nullptr;
    throw error(error_kind::input, fmt::format("{}: the argument {} is missing: {}", type_, name,
                                               kinds[static_cast<std::size_t>(wanted)]));
  }
  const std::size_t given = found->what().index();
  const bool fits = given == static_cast<std::size_t>(wanted) ||
                    (wanted == kind::number && std::holds_alternative<std::int64_t>(found->what()));
  if (!fits)
    throw error(error_kind::input, fmt::format("{}: the argument {} is {}; it takes {}", type_, name,
                                               words_of(found->what()), kinds[static_cast<std::size_t>(wanted)]));
  return &*found;
}

void arguments::out_of_range(const std::string& name, std::int64_t value) const {
  throw error(error_kind::input, fmt::format("{}: the argument {} is {}: out of range", type_, name, value));
}

void arguments::check_all_known() const {
  for (const arg& one : all_)
    if (std::ranges::find(asked_, one.name()) == asked_.end())
      throw error(error_kind::input,
                  fmt::format("{} has no argument {}; {}", type_, one.name(),
                              asked_.empty() ? "it takes none" : fmt::format("it takes {}", fmt::join(asked_, ", "))));
}

}  // namespace troupe
