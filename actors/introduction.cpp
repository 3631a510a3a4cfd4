#include "actors/introduction.hpp"

#include <fmt/format.h>

#include "actors/caf_network.hpp"
#include "kernels/cpu/blas.hpp"
#include "kernels/devices.hpp"
#include "protocol/blob.hpp"
#include "protocol/schema.hpp"

namespace troupe {

namespace {

/// Items from here on are the same on both sides.
constexpr std::string_view first_common = "version";

std::string short_form(const std::string& text) {
  return fmt::format("{:016x}", digest_of(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

hello common_items() {
  initialize_types(true);
  hello items = {{std::string(first_common), TROUPE_VERSION},
                 {"instruction set", kernels::instruction_sets().front()},
                 {"BLAS kernels", kernels::blas_kernels()}};
  for (const auto& [name, form] : message_schema()) items.emplace_back("message " + name, short_form(form));
  return items;
}

}  // namespace

hello introduction(const std::string& purpose, const std::string& session) {
  static const hello common = common_items();
  hello items = {{"purpose", purpose}, {"session", session}};
  items.insert(items.end(), common.begin(), common.end());
  return items;
}

std::optional<std::string> first_disagreement(const hello& mine, const hello& theirs, const std::string& their_name) {
  bool common = false;
  for (const auto& [name, value] : mine) {
    common = common || name == first_common;
    if (!common) continue;
    const auto other = find_item(theirs, name);
    if (other == value) continue;
    return fmt::format("{} is {} here and {} at {}; the same build is needed everywhere", name, value,
                       other ? std::string(*other) : "unknown", their_name);
  }
  if (theirs.size() > mine.size())
    return fmt::format("{} is {} at {} and unknown here; the same build is needed everywhere", theirs.back().first,
                       theirs.back().second, their_name);
  return std::nullopt;
}

}  // namespace troupe
