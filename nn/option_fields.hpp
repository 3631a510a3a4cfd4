// How a layer's options are written in job files: each is described once, with its limits. An option that follows from
// the input, such as the number of its channels, is not described: files do not have it.

#pragma once

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "nn/module.hpp"

namespace troupe::nn {

/// Returns a value of a job file for people.
std::string shown_value(const boost::json::value& value);

/// An option of a layer with such options.
template <class Options>
struct option_field {
  const char* name;
  bool is_required;
  std::string limit;  ///< what it must be
  std::function<bool(const Options&)> fits;
  std::function<bool(const boost::json::value&, Options&)> read;  ///< false: it is of another type, or does not fit
  std::function<boost::json::value(const Options&)> write;
  std::function<std::string(const Options&)> others = {};  ///< if the limit depends on other options: their values
};

template <class Options>
struct option_fields {
  std::vector<option_field<Options>> all = {};

  /// One that need not be given may also be what it is then.
  option_fields&& whole(const char* name, std::size_t Options::*field, std::size_t low, std::size_t high,
                        bool is_required = true) && {
    const auto is_within = [=](const Options& of) { return of.*field >= low && of.*field <= high; };
    all.push_back({name, is_required, fmt::format("a whole number between {} and {}", low, high),
                   [=](const Options& of) { return is_within(of) || (!is_required && of.*field == Options().*field); },
                   [=](const boost::json::value& value, Options& to) {
                     boost::system::error_code ec;
                     const auto number = value.to_number<std::uint64_t>(ec);
                     if (ec) return false;
                     to.*field = number;
                     return is_within(to);
                   },
                   [=](const Options& of) { return boost::json::value(static_cast<std::uint64_t>(of.*field)); }});
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
                       bool is_required = false) &&;

  option_fields&& truth(const char* name, bool Options::*field) && {
    all.push_back({name, false, "true or false", [](const Options&) { return true; },
                   [=](const boost::json::value& value, Options& to) {
                     if (value.is_bool()) to.*field = value.get_bool();
                     return value.is_bool();
                   },
                   [=](const Options& of) { return boost::json::value(of.*field); }});
    return std::move(*this);
  }
};

/// Sets a number as job files have it. False if the value is no number. Boost.JSON reads the last of 17 digits only
/// about right, so 15 count: these it reads as they are written.
bool read_real(const boost::json::value& value, double& to);

template <class Options>
option_fields<Options>&& option_fields<Options>::real(const char* name, double Options::*field, std::string limit,
                                                      bool (*is_within)(double), bool is_required) && {
  const auto fits = [=](const Options& of) { return is_within(of.*field); };
  all.push_back({name, is_required, std::move(limit), fits,
                 [=](const boost::json::value& value, Options& to) { return read_real(value, to.*field) && fits(to); },
                 [=](const Options& of) { return boost::json::value(of.*field); }});
  return std::move(*this);
}

/// Returns the fields of a layer's options; of those that have none, an empty list.
template <class Options>
const std::vector<option_field<Options>>& fields_of() {
  static const std::vector<option_field<Options>> none;
  if constexpr (requires { Options::fields(); }) return Options::fields().all;
  return none;
}

/// Throws `error` if an option is not within its limits.
template <class Options>
const Options& checked(const Options& given) {
  for (const auto& one : fields_of<Options>())
    if (!one.fits(given))
      throw error(error_kind::input,
                  fmt::format("{}: {} {}: must be {}{}", Options::kind, one.name, shown_value(one.write(given)),
                              one.limit, one.others ? fmt::format(" ({})", one.others(given)) : ""));
  return given;
}

}  // namespace troupe::nn
