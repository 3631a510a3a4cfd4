// The options of layers in job files, and of modules in messages to servers: each is described once, with its limits.
// An option that follows from the layer's input, such as the number of channels, is not described: files do not contain
// it.

#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nn/module.hpp"

namespace troupe::nn {

/// The value given for an option. A std::int64_t is below 0.
using option_value = std::variant<bool, std::uint64_t, double, std::string, std::int64_t>;

/// Returns the value as users write it.
std::string shown_value(const option_value& value);

/// Returns the same text, which lasts as long as the program.
std::string_view lasting_text(const std::string& text);

/// Returns the value of an option of type T; null if it has another type, or T cannot represent it.
template <class T>
std::optional<T> value_as(const option_value& value) {
  return std::visit(
      []<class Given>(const Given& given) -> std::optional<T> {
        if constexpr (std::same_as<Given, std::string> && std::same_as<T, std::string_view>) {
          return lasting_text(given);
        } else if constexpr (std::same_as<Given, bool> || std::same_as<T, bool> || !std::is_arithmetic_v<Given> ||
                             !std::is_arithmetic_v<T>) {
          if constexpr (std::same_as<Given, T>) return given;
        } else if constexpr (std::floating_point<T>) {
          return static_cast<T>(given);
        } else if constexpr (std::integral<Given>) {
          if (std::in_range<T>(given)) return static_cast<T>(given);
        } else {
          const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
          const double begin = std::is_signed_v<T> ? -end : 0;
          if (given >= begin && given < end && std::floor(given) == given) return static_cast<T>(given);
        }
        return std::nullopt;
      },
      value);
}

template <class T>
option_value value_from(T given) {
  if constexpr (std::same_as<T, std::string_view>)
    return std::string(given);
  else if constexpr (std::same_as<T, bool>)
    return given;
  else if constexpr (std::floating_point<T>)
    return double{given};
  else
    return std::in_range<std::uint64_t>(given) ? option_value(static_cast<std::uint64_t>(given))
                                               : option_value(static_cast<std::int64_t>(given));
}

/// The largest integer in messages.
constexpr std::uint64_t integer_max = std::numeric_limits<std::int64_t>::max();

/// An option in a layer's `Options`.
template <class Options>
struct option_field {
  std::string name;
  bool is_required;
  std::string limit;  ///< the valid values
  std::function<bool(const Options&)> fits;
  std::function<bool(const option_value&, Options&)> read;  ///< false: wrong type, or out of its limit
  std::function<option_value(const Options&)> write;
  std::function<std::string(const Options&)> others = {};  ///< if the limit depends on other options: shows their
                                                           ///< values
};

template <class Options>
struct option_fields {
  std::vector<option_field<Options>> all = {};

  /// An optional one may also have its default.
  template <std::unsigned_integral Whole>
  option_fields&& whole(const char* name, Whole Options::*field, std::uint64_t low, std::uint64_t high = integer_max,
                        bool is_required = true) && {
    high = std::min<std::uint64_t>(high, std::numeric_limits<Whole>::max());
    return add(name, field, is_required,
               "a whole number between " + std::to_string(low) + " and " + std::to_string(high),
               [=](Whole x) { return x >= low && x <= high; });
  }

  /// A further limit of the last option, by the other options, which `others` shows; one that is not yet known is 0.
  option_fields&& that(const char* limit, bool (*is_so)(const Options&), std::string (*others)(const Options&)) && {
    option_field<Options>& last = all.back();
    last.limit += std::string(" that ") + limit;
    last.fits = [fits = last.fits, is_so](const Options& of) { return fits(of) && is_so(of); };
    last.others = others;
    return std::move(*this);
  }

  template <std::signed_integral Integer>
  option_fields&& integer(const char* name, Integer Options::*field, bool is_required = false) && {
    return add(name, field, is_required, "an integer", [](Integer) { return true; });
  }
  template <std::signed_integral Integer>
  option_fields&& integer(const char* name, Integer Options::*field, std::int64_t low, std::int64_t high,
                          bool is_required = false) && {
    return add(name, field, is_required, "an integer between " + std::to_string(low) + " and " + std::to_string(high),
               [=](Integer x) { return x >= low && x <= high; });
  }

  template <std::floating_point Real>
  option_fields&& real(
      const char* name, Real Options::*field, std::string limit = "a number",
      bool (*is_within)(double) = [](double) { return true; }, bool is_required = false) && {
    return add(name, field, is_required, std::move(limit), is_within);
  }

  option_fields&& truth(const char* name, bool Options::*field) && {
    return add(name, field, false, "true or false", [](bool) { return true; });
  }

  /// Not a std::string: gcc 12 would destroy one in a coroutine's temporary options twice.
  option_fields&& text(const char* name, std::string_view Options::*field, bool is_required = false) && {
    return add(name, field, is_required, "a text", [](std::string_view) { return true; });
  }

 private:
  template <class T, class Within>
  option_fields&& add(const char* name, T Options::*field, bool is_required, std::string limit, Within is_within) {
    all.push_back(
        {name, is_required, std::move(limit),
         [=](const Options& of) { return is_within(of.*field) || (!is_required && of.*field == Options().*field); },
         [=](const option_value& value, Options& to) {
           const auto given = value_as<T>(value);
           if (given) to.*field = *given;
           return given && is_within(*given);
         },
         [=](const Options& of) { return value_from(of.*field); }});
    return std::move(*this);
  }
};

/// Returns the fields of these options; an empty list if they describe none.
template <class Options>
const std::vector<option_field<Options>>& fields_of() {
  static const std::vector<option_field<Options>> all = [] {
    if constexpr (requires { Options::fields(); })
      return Options::fields().all;
    else
      return std::vector<option_field<Options>>();
  }();
  return all;
}

/// Returns the fields for messages to servers: `remote_fields()` if the options have it, else the same.
template <class Options>
const std::vector<option_field<Options>>& remote_fields_of() {
  if constexpr (requires { Options::remote_fields(); }) {
    static const std::vector<option_field<Options>> all = Options::remote_fields().all;
    return all;
  } else {
    return fields_of<Options>();
  }
}

/// Throws the `error` for an option out of its limit. `others`: the options that the limit depends on; may be empty.
[[noreturn]] void refuse_option(const std::string& kind, const std::string& name, const option_value& given,
                                const std::string& limit, const std::string& others);

/// Throws `error` if an option is out of its limits.
template <class Options>
const Options& checked(const Options& given) {
  for (const auto& one : fields_of<Options>())
    if (!one.fits(given))
      refuse_option(Options::kind, one.name, one.write(given), one.limit, one.others ? one.others(given) : "");
  return given;
}

}  // namespace troupe::nn
