// Named arguments, by which a module is made on a server.

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

/// An argument: `arg("in_features", 16)`. Its value is a bool, an integer, a double or a text. Throws `error` if an
/// integer has more than 63 bits.
class arg {
 public:
  using value = std::variant<bool, std::int64_t, double, std::string>;

  template <class T>
  arg(std::string name, const T& what) : name_(std::move(name)) {
    if constexpr (std::is_same_v<T, bool>)
      value_ = what;
    else if constexpr (std::is_unsigned_v<T>)
      value_ = to_signed(what);
    else if constexpr (std::is_integral_v<T>)
      value_ = static_cast<std::int64_t>(what);
    else if constexpr (std::is_floating_point_v<T>)
      value_ = static_cast<double>(what);
    else
      value_ = std::string(what);
  }

  const std::string& name() const { return name_; }
  const value& what() const { return value_; }

 private:
  std::int64_t to_signed(std::uint64_t what) const;

  std::string name_;
  value value_;
};

/// What a module's constructor reads. All functions throw `error` on what does not fit; arguments that are given twice,
/// or that the constructor does not ask for, are errors too.
class arguments {
 public:
  arguments() = default;
  /// `type`: of the module, for errors.
  arguments(std::string type, std::vector<arg> all);

  /// Returns the argument `name`. An integer is a double, too.
  template <class T>
  T get(const std::string& name) const {
    return as<T>(name, *find(name, type_of<T>(), true));
  }
  /// The same, with a default.
  template <class T>
  T get(const std::string& name, T otherwise) const {
    const arg* const found = find(name, type_of<T>(), false);
    return found == nullptr ? std::move(otherwise) : as<T>(name, *found);
  }

  const std::string& type() const { return type_; }
  const std::vector<arg>& all() const { return all_; }

  /// Throws an `error` that names an argument which `get` has not read, if there is one.
  void check_all_known() const;

 private:
  enum class kind : std::uint8_t { flag, integer, number, text };

  template <class T>
  static constexpr kind type_of() {
    static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>,
                  "arguments are bool, integers, double or std::string");
    if constexpr (std::is_same_v<T, bool>) return kind::flag;
    if constexpr (std::is_integral_v<T>) return kind::integer;
    if constexpr (std::is_floating_point_v<T>) return kind::number;
    return kind::text;
  }

  const arg* find(const std::string& name, kind wanted, bool required) const;
  [[noreturn]] void out_of_range(const std::string& name, std::int64_t value) const;

  template <class T>
  T as(const std::string& name, const arg& found) const {
    if constexpr (type_of<T>() == kind::integer) {
      const auto whole = std::get<std::int64_t>(found.what());
      if (!std::in_range<T>(whole)) out_of_range(name, whole);
      return static_cast<T>(whole);
    } else if constexpr (type_of<T>() == kind::number) {
      if (const auto* whole = std::get_if<std::int64_t>(&found.what())) return static_cast<T>(*whole);
      return static_cast<T>(std::get<double>(found.what()));
    } else {
      return std::get<T>(found.what());
    }
  }

  std::string type_;
  std::vector<arg> all_;
  mutable std::vector<std::string> asked_;
};

}  // namespace troupe
