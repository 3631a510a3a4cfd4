// How a message is described: its struct, its fields in wire order, and its traits. Everything else is derived from
// that: inspection, frames, contents in traces, the tables of message types, replay, and samples in tests.
//
//   struct lookup {
//     header head;
//     std::vector<bag_lookup> tables;
//
//     static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true};
//   };
//   BOOST_DESCRIBE_STRUCT(lookup, (), (head, tables))
//
// A field not named there stays within the process. Traits with default values may be left out.

#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/tensor.hpp"

namespace troupe::protocol {

/// The connection that carries a message between processes.
enum class plane : std::uint8_t { control, data };

/// Which part of a message is identical in all runs of a job.
enum class comparable : std::uint8_t {
  no,     ///< sending it depends on timing, or on how the run is spread over processes
  parts,  ///< only its tensors; other fields hold times, folders or addresses
  whole
};

struct message_traits {
  plane via = plane::control;
  /// In a replay, servers handle these messages in the recorded order.
  bool ordered = false;
  /// A replay compares these messages with the recorded ones.
  bool replayed = false;
  /// Handling it changes no state, so two of these messages may be reordered.
  bool only_reads = false;
  /// A later message of the same sender to the same actor may have the same blobs, and then travels without them.
  bool blobs_return = false;
  /// What `troupe trace diff` compares.
  comparable diff = comparable::whole;
  /// There is one message of the type per bucket of a step. Set if the type has a field `bucket`.
  bool by_bucket = false;
  /// The number of its last fields that older recordings lack; these then have their default values.
  std::uint8_t added = 0;
  /// The number of its last fields that contents leave out: they depend on the time, and change no number.
  std::uint8_t unrecorded = 0;
};

template <class T>
concept described = boost::describe::has_describe_members<T>::value;

/// Descriptors of T's fields, each with its `name` and a `pointer` to the member.
template <described T>
using fields_of =
    boost::mp11::mp_rename<boost::describe::describe_members<T, boost::describe::mod_public>, boost::mp11::mp_list>;

/// Saves or loads any described struct, field by field.
template <class Inspector, described T>
bool inspect(Inspector& f, T& x) {
  return [&]<class... Field>(boost::mp11::mp_list<Field...>) {
    return f.object(x).fields(f.field(std::string_view(Field::name), x.*Field::pointer)...);
  }(fields_of<T>());
}

/// Saves the first fields of a message, without its last `Without`.
template <std::size_t Without, class Inspector, described T>
bool inspect_first(Inspector& f, T& x) {
  constexpr std::size_t count = boost::mp11::mp_size<fields_of<T>>::value - Without;
  return [&]<class... Field>(boost::mp11::mp_list<Field...>) {
    return f.object(x).fields(f.field(std::string_view(Field::name), x.*Field::pointer)...);
  }(boost::mp11::mp_take_c<fields_of<T>, count>());
}

/// Whether T holds bulk bytes.
template <class T>
constexpr bool holds_blobs = std::is_same_v<T, msg::blob> || std::is_same_v<T, msg::tensor>;
template <class T>
constexpr bool holds_blobs<std::vector<T>> = holds_blobs<T>;
template <class T>
constexpr bool holds_blobs<std::optional<T>> = holds_blobs<T>;
template <class A, class B>
constexpr bool holds_blobs<std::pair<A, B>> = holds_blobs<A> || holds_blobs<B>;
template <described T>
constexpr bool holds_blobs<T> = []<class... Field>(boost::mp11::mp_list<Field...>) {
  return (holds_blobs<std::remove_cvref_t<decltype(std::declval<T>().*Field::pointer)>> || ...);
}(fields_of<T>());

/// Calls `use` with every blob that `x` holds, in the order of its fields.
template <class T, class F>
void for_each_blob(const T& x, F&& use) {
  if constexpr (!holds_blobs<T>) {
    return;
  } else if constexpr (std::is_same_v<T, msg::blob>) {
    use(x);
  } else if constexpr (std::is_same_v<T, msg::tensor>) {
    use(x.bytes);
  } else if constexpr (described<T>) {
    [&]<class... Field>(boost::mp11::mp_list<Field...>) {
      (for_each_blob(x.*Field::pointer, use), ...);
    }(fields_of<T>());
  } else if constexpr (requires { x.has_value(); }) {
    if (x) for_each_blob(*x, use);
  } else if constexpr (requires { x.first; }) {
    for_each_blob(x.first, use);
    for_each_blob(x.second, use);
  } else {
    for (const auto& one : x) for_each_blob(one, use);
  }
}

/// How messages of type T are treated.
template <class T>
constexpr message_traits traits_v = [] {
  message_traits made;
  if constexpr (requires { T::traits; }) made = T::traits;
  made.by_bucket = requires(const T& x) { x.bucket; };
  return made;
}();

}  // namespace troupe::protocol

/// Also visible in the namespace of the messages and their parts.
namespace troupe::msg {

using protocol::comparable;
using protocol::inspect;
using protocol::message_traits;
using protocol::plane;

}  // namespace troupe::msg
