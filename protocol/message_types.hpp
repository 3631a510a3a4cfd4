// All message types in the order of their numbers, with lookup by number or name. type_ids.hpp holds the only list.

#pragma once

#include <boost/mp11/algorithm.hpp>
#include <caf/type_id.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "protocol/describe.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::protocol {

/// The readable name of a message type, also in traces: `name` without its namespace.
constexpr std::string_view message_name(caf::string_view name) {
  const std::string_view whole(name.data(), name.size());
  const std::size_t colons = whole.find("::");
  return colons == std::string_view::npos ? whole : whole.substr(colons + 2);
}

template <class T>
constexpr std::string_view message_name_v = message_name(caf::type_name_v<T>);

template <class Place>
using type_at = caf::type_by_id_t<caf::id_block::troupe::begin + Place::value>;

using message_types =
    boost::mp11::mp_transform<type_at,
                              boost::mp11::mp_iota_c<caf::id_block::troupe::end - caf::id_block::troupe::begin>>;

template <class T>
using is_on_data_plane = std::bool_constant<traits_v<T>.via == plane::data>;

/// The types that travel over data links.
using link_types = boost::mp11::mp_copy_if<message_types, is_on_data_plane>;

struct message_type {
  caf::type_id_t number;
  std::string_view name;
  message_traits traits;
};

/// All message types, sorted by number.
std::span<const message_type> all_message_types();

/// The traits of a message type; the default traits if there is no such type.
const message_traits& traits_by_id(caf::type_id_t number);
const message_traits& traits_by_name(std::string_view name);

/// The name of a message type; empty if there is no such type.
std::string_view message_name(caf::type_id_t number);

/// Registers Troupe's messages with CAF. Call it before creating an actor system; further calls do nothing. Thread:
/// any.
void initialize_types();

}  // namespace troupe::protocol
