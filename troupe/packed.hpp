// Packed arguments and results of remote calls: bytes, tensors and handles. Methods accept and return bool, integers,
// floating-point numbers, std::string, tensors, handles, and vectors and pairs of these.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

namespace runtime {
class reference;
}

template <class Module>
class remote_module;

namespace detail {

struct packed {
  std::string fields = {};
  std::vector<tensor> tensors = {};
  std::vector<std::shared_ptr<const runtime::reference>> handles = {};
};

/// Reads what `pack` wrote. Throws `error` if the bytes do not fit the type.
class unpacker {
 public:
  explicit unpacker(packed& from) : from_(from) {}

  void bytes(void* to, std::size_t size);
  /// Reads a length; each element needs at least one byte.
  std::size_t length();
  std::string text();
  tensor next_tensor();
  std::shared_ptr<const runtime::reference> next_handle();

 private:
  [[noreturn]] static void malformed();

  packed& from_;
  std::size_t at_ = 0;
  std::size_t tensors_ = 0;
};

template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;
template <class T>
constexpr bool is_pair = false;
template <class A, class B>
constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
constexpr bool is_handle = false;
template <class Module>
constexpr bool is_handle<remote_module<Module>> = true;
template <class T>
constexpr bool never = false;

/// Copies the tensor's numbers if they are shared.
void pack_tensor(packed& to, tensor what);
void pack_handle(packed& to, std::shared_ptr<const runtime::reference> what);

template <class T>
void pack(packed& to, T what) {
  if constexpr (std::is_arithmetic_v<T>) {
    to.fields.append(reinterpret_cast<const char*>(&what), sizeof what);
  } else if constexpr (std::is_same_v<T, std::string>) {
    pack(to, static_cast<std::uint64_t>(what.size()));
    to.fields += what;
  } else if constexpr (std::is_same_v<T, tensor>) {
    pack_tensor(to, std::move(what));
  } else if constexpr (is_handle<T>) {
    pack_handle(to, what.reference());
  } else if constexpr (is_vector<T>) {
    pack(to, static_cast<std::uint64_t>(what.size()));
    for (auto&& one : what) pack<typename T::value_type>(to, std::move(one));
  } else if constexpr (is_pair<T>) {
    pack(to, std::move(what.first));
    pack(to, std::move(what.second));
  } else {
    static_assert(never<T>,
                  "remote methods take and return numbers, bool, std::string, tensors, handles, and vectors "
                  "and pairs of these");
  }
}

template <class T>
T unpack(unpacker& from) {
  if constexpr (std::is_same_v<T, bool>) {
    return unpack<std::uint8_t>(from) != 0;
  } else if constexpr (std::is_arithmetic_v<T>) {
    T number = {};
    from.bytes(&number, sizeof number);
    return number;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return from.text();
  } else if constexpr (std::is_same_v<T, tensor>) {
    return from.next_tensor();
  } else if constexpr (is_handle<T>) {
    return T(from.next_handle());
  } else if constexpr (is_vector<T>) {
    T all;
    for (std::size_t left = from.length(); left > 0; --left) all.push_back(unpack<typename T::value_type>(from));
    return all;
  } else if constexpr (is_pair<T>) {
    auto first = unpack<typename T::first_type>(from);
    return {std::move(first), unpack<typename T::second_type>(from)};
  } else {
    static_assert(never<T>,
                  "remote methods take and return numbers, bool, std::string, tensors, handles, and vectors "
                  "and pairs of these");
  }
}

/// Unpacks the arguments of a method, in order.
template <class... P>
std::tuple<std::decay_t<P>...> unpack_all(packed& from) {
  unpacker reader(from);
  return std::tuple<std::decay_t<P>...>{unpack<std::decay_t<P>>(reader)...};
}

}  // namespace detail
}  // namespace troupe
