#include "protocol/message_types.hpp"

#include <algorithm>
#include <array>
#include <caf/init_global_meta_objects.hpp>

namespace troupe::protocol {

namespace {

constexpr auto all_types = []<class... T>(boost::mp11::mp_list<T...>) {
  static_assert(((traits_v<T>.replayed || !traits_v<T>.ordered) && ...), "ordered messages are compared too");
  return std::array{message_type{caf::type_id_v<T>, message_name_v<T>, traits_v<T>}...};
}(message_types());

constexpr message_traits unknown;

/// The entry with that number, or null.
const message_type* find(caf::type_id_t number) {
  const std::size_t place = std::size_t{number} - caf::id_block::troupe::begin;
  return place < all_types.size() ? &all_types[place] : nullptr;
}

}  // namespace

std::span<const message_type> all_message_types() { return all_types; }

const message_traits& traits_by_id(caf::type_id_t number) {
  const message_type* const type = find(number);
  return type != nullptr ? type->traits : unknown;
}

const message_traits& traits_by_name(std::string_view name) {
  const auto* const type = std::ranges::find(all_types, name, &message_type::name);
  return type != all_types.end() ? type->traits : unknown;
}

std::string_view message_name(caf::type_id_t number) {
  const message_type* const type = find(number);
  return type != nullptr ? type->name : "";
}

void initialize_types() {
  static const bool done = [] {
    caf::core::init_global_meta_objects();
    caf::init_global_meta_objects<caf::id_block::troupe>();
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace troupe::protocol
