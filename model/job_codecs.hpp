// How the settings of a job are read from text and written: `job_table.cpp` names them.

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

#include "base/number.hpp"
#include "model/job_table.hpp"

namespace troupe::model::codecs {

/// How a setting reads and writes one field of a job.
struct codec {
  decltype(job_setting::read) read;
  decltype(job_setting::write) write;
  setting_type type = setting_type::text;
};

using setting_fault = std::optional<std::string>;

setting_fault read_real(double& to, std::string_view text, double high, bool zero_allowed);
setting_fault unknown_name(std::string_view text, const std::vector<std::string>& names);

codec consistency_mode();
codec test_fraction();
/// An optional text.
codec optional_text(std::string job::*field, setting_type type = setting_type::text);
codec separator();
codec id_skew();
codec hidden_widths();
codec layer_list();
codec bottom_widths();
/// The learning rate and its schedule are separate settings and do not change.
codec optimizer(optimizer_spec job::*field, optimizer_use use);
/// The schedule applies to both learning rates.
codec schedule();
codec elastic_range();
codec memberships();
/// The layers at which the stages of a pipeline begin.
codec stage_begins();

/// Settings that only elastic jobs, or jobs with pipelines, have: others write none.
codec elastic_only(codec how);
codec pipelined_only(codec how);

template <class T>
setting_fault read_whole(T& to, std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto number = parse_number<std::uint64_t>(text);
  if (number && *number >= low && *number <= high) {
    to = static_cast<T>(*number);
    return std::nullopt;
  }
  // Digits, perhaps after a sign: a whole number out of range.
  const auto digits = text.substr(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  const bool is_whole = !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return fmt::format("must be {}between {} and {}", is_whole ? "" : "a whole number ", low, high);
}

template <class T>
codec whole(T job::*field, std::uint64_t low, std::uint64_t high) {
  return {[=](job& to, std::string_view text) { return read_whole(to.*field, text, low, high); },
          [=](const job& from) { return fmt::format("{}", from.*field); }, setting_type::whole};
}

template <class T>
codec optional_whole(std::optional<T> job::*field, std::uint64_t low, std::uint64_t high) {
  return {
      [=](job& to, std::string_view text) { return read_whole((to.*field).emplace(), text, low, high); },
      [=](const job& from) { return from.*field ? std::optional(fmt::format("{}", *(from.*field))) : std::nullopt; },
      setting_type::whole};
}

/// The number that `of` returns of a job.
template <class Of>
codec real_number(Of of, double high, bool zero_allowed) {
  return {[=](job& to, std::string_view text) { return read_real(std::invoke(of, to), text, high, zero_allowed); },
          [=](const job& from) { return fmt::format("{}", std::invoke(of, from)); }, setting_type::real};
}

template <class Enum>
codec choice(Enum job::*field, const std::vector<std::pair<std::string, std::type_identity_t<Enum>>>& names) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            std::vector<std::string> known;
            for (const auto& [name, value] : names) {
              if (name == text) {
                to.*field = value;
                return std::nullopt;
              }
              known.push_back(name);
            }
            return unknown_name(text, known);
          },
          [=](const job& from) {
            return std::ranges::find(names, from.*field, &std::pair<std::string, Enum>::second)->first;
          },
          std::is_same_v<Enum, bool> ? setting_type::truth : setting_type::text};
}

}  // namespace troupe::model::codecs
