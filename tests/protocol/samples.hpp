// A message of every type, filled in from its description, so that tests can send all of them.

#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/message_types.hpp"

namespace troupe::protocol {

inline msg::header some_header() { return {7, 12, 3, 1, 99, (msg::message_id{2} << 48) | 41}; }

inline msg::tensor some_tensor() { return msg::tensor::own(2, 3, std::vector<float>{1, -2, 3.5F, 0, 1e-39F, -7}); }

inline msg::blob some_indices() { return msg::blob::own(std::vector<std::int64_t>{5, 0, -1, std::int64_t{1} << 40}); }

/// Fills in messages: all numbers and texts differ, lists have two elements, and optional values are set. `handle_of`
/// makes the handles of actors, given a `std::type_identity` of their type.
template <class HandleOf>
class sample_maker {
 public:
  explicit sample_maker(HandleOf handle_of) : handle_of_(std::move(handle_of)) {}

  template <class T>
  T make() {
    T made{};
    fill(made);
    return made;
  }

 private:
  void fill(msg::header& x) { x = some_header(); }
  void fill(msg::tensor& x) { x = msg::tensor::own(2, 3, std::vector<float>{1, -2, next<float>(), 0, 1e-39F, -7}); }
  void fill(msg::blob& x) {
    x = msg::blob::own(std::vector<std::int64_t>{next<std::int64_t>(), -1, std::int64_t{1} << 40});
  }
  void fill(std::string& x) { x = "text " + std::to_string(next<int>()); }
  void fill(bool& x) { x = true; }

  template <class T>
  void fill(std::optional<T>& x) {
    fill(x.emplace());
  }
  template <class T>
  void fill(std::vector<T>& x) {
    x.resize(2);
    for (T& one : x) fill(one);
  }
  template <class A, class B>
  void fill(std::pair<A, B>& x) {
    fill(x.first);
    fill(x.second);
  }
  template <class T>
  void fill(T& x) {
    if constexpr (std::is_enum_v<T>) {
      x = static_cast<T>(5);
    } else if constexpr (std::is_arithmetic_v<T>) {
      x = next<T>();
    } else if constexpr (described<T>) {
      [&]<class... Field>(boost::mp11::mp_list<Field...>) { (fill(x.*Field::pointer), ...); }(fields_of<T>());
    } else {
      x = handle_of_(std::type_identity<T>());
    }
  }

  template <class T>
  T next() {
    return static_cast<T>(++count_) + (std::is_floating_point_v<T> ? static_cast<T>(0.5) : T{});
  }

  HandleOf handle_of_;
  int count_ = 0;
};

/// Returns one message of each type of the list, by number; `handle_of` as above.
template <class Types, class HandleOf>
std::map<caf::type_id_t, caf::message> samples_of(HandleOf handle_of) {
  std::map<caf::type_id_t, caf::message> all;
  [&]<class... T>(boost::mp11::mp_list<T...>) {
    (all.emplace(caf::type_id_v<T>, caf::make_message(sample_maker(handle_of).template make<T>())), ...);
  }(Types());
  return all;
}

/// Makes empty handles.
constexpr auto nobody = []<class Handle>(std::type_identity<Handle>) { return Handle(); };

/// Returns an actor's function that answers every message of its interface with an empty message.
template <class... Answer, class... Message>
auto idle_actor(std::type_identity<caf::typed_actor<caf::result<Answer>(Message)...>>) {
  using interface = caf::typed_actor<caf::result<Answer>(Message)...>;
  return [](typename interface::pointer) {
    return typename interface::behavior_type {
      [](Message&) -> Answer { return Answer(); }...
    };
  };
}

/// Returns one message of every type, by number. `spawn` makes the actors that some of them name, from a function that
/// returns their behavior.
template <class Spawn>
std::map<caf::type_id_t, caf::message> samples_of_all_types(Spawn spawn) {
  return samples_of<message_types>([&](auto interface) { return spawn(idle_actor(interface)); });
}

}  // namespace troupe::protocol
