// The arguments from which servers make types: their `options`, if they have any.

#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <variant>

#include "nn/own_options.hpp"
#include "troupe/layers.hpp"
#include "troupe/module.hpp"

namespace troupe {

class remote_object;

namespace detail {

template <class T>
concept can_be_remote = std::derived_from<T, nn::module> || std::derived_from<T, remote_object>;

/// The options of T, or an empty struct.
template <class T>
using remote_options_type = typename nn::detail::options_of_added<T>::type;

using made_remote = std::variant<std::shared_ptr<const nn::module>, std::unique_ptr<remote_object>>;

/// The options of a type, for code that does not know the type.
class remote_options : public nn::detail::added_options {
 public:
  virtual const std::type_info& type() const = 0;
  /// Returns the number of members of the options.
  virtual std::size_t members() const = 0;
  /// Makes an object of the type. Throws if its constructor does.
  virtual made_remote make() const = 0;
};

/// Converts to any member of `Options`.
template <class Options>
struct any_member {
  template <class T>
  requires(!std::same_as<T, Options>) operator T() const;
};

template <class Options, class... Before>
constexpr std::size_t count_members() {
  if constexpr (requires { Options{Before()..., any_member<Options>()}; })
    return count_members<Options, Before..., any_member<Options>>();
  else
    return sizeof...(Before);
}

template <class T>
class remote_options_of final
    : public nn::detail::options_with_fields<remote_options, T, &nn::remote_fields_of<remote_options_type<T>>> {
 public:
  using options = remote_options_type<T>;
  static constexpr bool has_options = requires { typename T::options; };
  static_assert(
      has_options ? std::constructible_from<T, const options&> : std::default_initializable<T>,
      "a type on servers is made of its `options`, by a constructor that takes `const options&`; one that has "
      "no such struct, by its default constructor");
  static_assert(std::is_aggregate_v<options> && std::is_trivially_destructible_v<options>,
                "the options of a type on servers are an aggregate of bool, integers, floating-point numbers and "
                "std::string_view");

  remote_options_of() = default;
  explicit remote_options_of(const options& chosen) { this->chosen_ = chosen; }

  const std::type_info& type() const override { return typeid(T); }
  std::size_t members() const override { return count_members<options>(); }
  made_remote make() const override {
    if constexpr (has_options)
      return std::make_unique<T>(std::as_const(this->chosen_));
    else
      return std::make_unique<T>();
  }
};

template <class T>
concept can_be_made = can_be_remote<T> || std::same_as<T, nn::embedding_bag>;

/// A request to make a table, or a module of a registered type; the other member is null.
struct wanted_module {
  const nn::embedding_bag::options* table = nullptr;
  std::unique_ptr<const remote_options> registered = nullptr;
};

template <can_be_made T>
wanted_module wanted(const remote_options_type<T>& options) {
  if constexpr (std::same_as<T, nn::embedding_bag>)
    return {.table = &options};
  else
    return {.registered = std::make_unique<remote_options_of<T>>(options)};
}

}  // namespace detail
}  // namespace troupe
