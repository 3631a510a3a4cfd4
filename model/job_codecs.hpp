// How the settings of a job are read from text and written: used by `job_table.cpp`.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/job_table.hpp"

namespace troupe::model::codecs {

/// Returns a value's text, by `to_string` if there is one for it.
template <class T>
std::string usual_text(const T& value) {
  if constexpr (requires { to_string(value); })
    return to_string(value);
  else
    return fmt::format("{}", value);
}

/// The text of a value. A fault's message does not name the setting.
template <class T>
struct text_form {
  std::function<result<T>(std::string_view)> read;
  std::function<std::string(const T&)> write = usual_text<T>;
  setting_type type = setting_type::text;
};

/// How a setting reads and writes one part of a job.
struct codec {
  decltype(job_setting::read) read;
  decltype(job_setting::write) write;
  setting_type type = setting_type::text;
};

using condition = bool (*)(const job&);
inline bool always(const job& /*any*/) { return true; }

/// Reads and writes the part of a job that `of` returns. Writes nothing for a job that does not fulfil `has`, or lacks
/// an optional value.
template <class Of, class T>
codec of_job(Of of, text_form<T> how, condition has = always) {
  return {[of, read = std::move(how.read)](job& to, std::string_view text) -> std::optional<std::string> {
            auto value = read(text);
            if (!value) return std::move(value.error().message);
            std::invoke(of, to) = *std::move(value);
            return std::nullopt;
          },
          [of, has, write = std::move(how.write)](const job& from) -> std::optional<std::string> {
            if (!has(from)) return std::nullopt;
            const auto& value = std::invoke(of, from);
            if constexpr (std::is_same_v<decltype(value), const T&>)
              return write(value);
            else
              return value ? std::optional(write(*value)) : std::nullopt;
          },
          how.type};
}

/// Returns a function that returns a field of a member of a job.
template <class Part, class T>
auto within(Part job::*part, T Part::*field) {
  return [=](auto& of) -> auto& { return of.*part.*field; };
}

result<std::uint64_t> read_whole(std::string_view text, std::uint64_t low, std::uint64_t high);
text_form<double> real_number(double high, bool zero_allowed);

/// A text that is not empty.
text_form<std::string> any_text(setting_type type = setting_type::text);
text_form<std::uint32_t> consistency_mode();
text_form<double> share_of_rows();
text_form<char> separator();
text_form<double> id_skew();
text_form<std::vector<std::size_t>> layer_widths();
text_form<std::vector<nn::layer_spec>> layer_list();
/// One of the usual losses, or one added by the program.
text_form<loss_choice> loss_name();
/// Metrics added by the program, by their names.
text_form<nn::own_metrics> metric_names();
text_form<optimizer_options> optimizer(optimizer_use use);
/// Without memberships, which are a separate setting.
text_form<elasticity> elastic_range();
/// The layers at which the stages of a pipeline begin.
text_form<std::vector<std::size_t>> stage_begins();

/// A field that is a whole number, or an optional one.
template <class T>
codec whole(T job::*field, std::uint64_t low, std::uint64_t high) {
  using number = typename decltype(std::optional{T{}})::value_type;
  const auto read = [=](std::string_view text) {
    return read_whole(text, low, high).map([](std::uint64_t value) { return static_cast<number>(value); });
  };
  return of_job(field, text_form<number>{.read = read, .type = setting_type::whole});
}

/// A field with one of a few values, by their names.
template <class Enum>
codec choice(Enum job::*field, const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& names,
             condition has = always) {
  using name = std::pair<std::string, Enum>;
  const auto read = [=](std::string_view text) -> result<Enum> {
    if (const auto known = std::ranges::find(names, text, &name::first); known != names.end()) return known->second;
    return bad_input("unknown; {}", suggestions(text, names_in(names, &name::first)));
  };
  const auto write = [=](Enum value) { return std::ranges::find(names, value, &name::second)->first; };
  constexpr bool is_bool = std::is_same_v<Enum, bool>;
  return of_job(field, text_form<Enum>{read, write, is_bool ? setting_type::truth : setting_type::text}, has);
}

}  // namespace troupe::model::codecs
