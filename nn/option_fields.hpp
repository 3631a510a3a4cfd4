// How a layer's options are written in job files: each is described once, with its limits. An option that follows from
// the input, such as the number of its channels, is not described: files do not have it.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "nn/module.hpp"

namespace troupe::nn {

/// What a job file gives an option.
using option_value = std::variant<bool, std::uint64_t, double, std::string>;

/// For people.
std::string shown_value(const option_value& value);

/// Returns the whole number, from 0; null: it is something else.
inline std::optional<std::uint64_t> whole_of(const option_value& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  const auto* real = std::get_if<double>(&value);
  constexpr double end = 18446744073709551616.0;  // 2^64
  if (real == nullptr || !(*real >= 0 && *real < end) || std::floor(*real) != *real) return std::nullopt;
  return static_cast<std::uint64_t>(*real);
}

/// Returns the number; null: it is something else.
inline std::optional<double> real_of(const option_value& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*number);
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? std::nullopt : std::optional(*real);
}

/// An option of a layer with such options.
template <class Options>
struct option_field {
  std::string name;
  bool is_required;
  std::string limit;  ///< what it must be
  std::function<bool(const Options&)> fits;
  std::function<bool(const option_value&, Options&)> read;  ///< false: it is of another type, or does not fit
  std::function<option_value(const Options&)> write;
  std::function<std::string(const Options&)> others = {};  ///< if the limit depends on other options: their values
};

template <class Options>
struct option_fields {
  std::vector<option_field<Options>> all = {};

  /// One that need not be given may also be what it is then.
  option_fields&& whole(const char* name, std::size_t Options::*field, std::size_t low, std::size_t high,
                        bool is_required = true) && {
    const auto is_within = [=](const Options& of) { return of.*field >= low && of.*field <= high; };
    all.push_back({name, is_required, "a whole number between " + std::to_string(low) + " and " + std::to_string(high),
                   [=](const Options& of) { return is_within(of) || (!is_required && of.*field == Options().*field); },
                   [=](const option_value& value, Options& to) {
                     const auto number = whole_of(value);
                     if (!number) return false;
                     to.*field = *number;
                     return is_within(to);
                   },
                   [=](const Options& of) -> option_value { return static_cast<std::uint64_t>(of.*field); }});
    return std::move(*this);
  }

  /// What the last one must be besides, given the other options, which `others` shows; one that is not known yet is 0.
  option_fields&& that(const char* limit, bool (*is_so)(const Options&), std::string (*others)(const Options&)) && {
    option_field<Options>& last = all.back();
    last.limit += std::string(" that ") + limit;
    last.fits = [fits = last.fits, is_so](const Options& of) { return fits(of) && is_so(of); };
    last.others = others;
    return std::move(*this);
  }

  option_fields&& real(const char* name, double Options::*field, std::string limit, bool (*is_within)(double),
                       bool is_required = false) && {
    const auto fits = [=](const Options& of) { return is_within(of.*field); };
    all.push_back({name, is_required, std::move(limit), fits,
                   [=](const option_value& value, Options& to) {
                     const auto number = real_of(value);
                     if (number) to.*field = *number;
                     return number && fits(to);
                   },
                   [=](const Options& of) -> option_value { return of.*field; }});
    return std::move(*this);
  }

  option_fields&& truth(const char* name, bool Options::*field) && {
    all.push_back({name, false, "true or false", [](const Options&) { return true; },
                   [=](const option_value& value, Options& to) {
                     const auto* given = std::get_if<bool>(&value);
                     if (given != nullptr) to.*field = *given;
                     return given != nullptr;
                   },
                   [=](const Options& of) -> option_value { return of.*field; }});
    return std::move(*this);
  }
};

/// Returns the fields of a layer's options; of those that have none, an empty list.
template <class Options>
const std::vector<option_field<Options>>& fields_of() {
  static const std::vector<option_field<Options>> none;
  if constexpr (requires { Options::fields(); }) return Options::fields().all;
  return none;
}

/// Throws the `error` of an option that is not within its limit. `others`: of which that depends; may be empty.
[[noreturn]] void refuse_option(const std::string& kind, const std::string& name, const option_value& given,
                                const std::string& limit, const std::string& others);

/// Throws `error` if an option is not within its limits.
template <class Options>
const Options& checked(const Options& given) {
  for (const auto& one : fields_of<Options>())
    if (!one.fits(given))
      refuse_option(Options::kind, one.name, one.write(given), one.limit, one.others ? one.others(given) : "");
  return given;
}

}  // namespace troupe::nn
