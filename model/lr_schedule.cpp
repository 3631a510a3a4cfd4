#include "model/lr_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/job.hpp"

namespace troupe::model {

namespace {

using curve = lr_schedule::shape;
using piece = lr_schedule::piece;

constexpr std::uint64_t steps_max = 1'000'000'000'000;
constexpr std::size_t pieces_max = 64;

/// In the order of `shape`.
struct form {
  const char* name;
  const char* arguments;  // for messages
  std::size_t numbers;
};
constexpr std::array forms{form{"constant", "", 0}, form{"warmup", ":STEPS", 1}, form{"step", ":EVERY,GAMMA", 2},
                           form{"cosine", ":STEPS", 1}};

const form& form_of(const piece& one) { return forms[static_cast<std::size_t>(one.form)]; }

bool ends(const piece& one) { return one.form == curve::warmup || one.form == curve::cosine; }

result<piece> parse_piece(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto known = std::ranges::find(forms, name, &form::name);
  if (known == forms.end())
    return bad_input("unknown schedule {}; {}", printable(name), suggestions(name, names_in(forms, &form::name)));
  piece made{static_cast<curve>(known - forms.begin())};
  std::vector<std::string_view> numbers;
  if (colon != std::string_view::npos) numbers = split(text.substr(colon + 1), ',');
  if (numbers.size() != known->numbers)
    return bad_input("{} must be of the form {}{}", printable(text), known->name, known->arguments);
  if (known->numbers >= 1) {
    const auto steps = parse_number<std::uint64_t>(numbers[0]);
    if (!steps || *steps < 1 || *steps > steps_max)
      return bad_input("{}: its steps must be a whole number between 1 and {}, not {}", known->name, steps_max,
                       printable(numbers[0]));
    made.steps = *steps;
  }
  if (known->numbers == 2) {
    const auto gamma = parse_number<double>(numbers[1]);
    if (!gamma || !(*gamma > 0 && *gamma <= 1))
      return bad_input("{}: its factor must be a number above 0 and at most 1, not {}", known->name,
                       printable(numbers[1]));
    made.gamma = *gamma;
  }
  return made;
}

double factor_of(const piece& one, std::uint64_t step) {
  switch (one.form) {
    case curve::constant:
      break;
    case curve::warmup:
      return static_cast<double>(std::min(step, one.steps)) / static_cast<double>(one.steps);
    case curve::step: {
      const std::uint64_t whole_intervals = (step - 1) / one.steps;
      return std::pow(one.gamma, static_cast<double>(whole_intervals));
    }
    case curve::cosine:
      if (step > one.steps) return 0;
      return (1 + std::cos(std::numbers::pi * (static_cast<double>(step - 1) / static_cast<double>(one.steps)))) / 2;
  }
  return 1;
}

}  // namespace

result<lr_schedule> parse_lr_schedule(std::string_view text) {
  lr_schedule schedule;
  schedule.pieces.clear();
  for (const auto part : split(text, '+')) {
    if (schedule.pieces.size() == pieces_max) return bad_input("has more than {} pieces", pieces_max);
    if (!schedule.pieces.empty() && !ends(schedule.pieces.back()))
      return bad_input("{} never ends, so nothing can follow it; put it last", form_of(schedule.pieces.back()).name);
    TROUPE_TRY(made, parse_piece(part));
    schedule.pieces.push_back(made);
  }
  return schedule;
}

std::string to_string(const lr_schedule& schedule) {
  std::string text;
  for (const piece& one : schedule.pieces) {
    text += fmt::format("{}{}", text.empty() ? "" : "+", form_of(one).name);
    if (form_of(one).numbers >= 1) text += fmt::format(":{}", one.steps);
    if (form_of(one).numbers == 2) text += fmt::format(",{}", one.gamma);
  }
  return text;
}

double factor_at(const lr_schedule& schedule, std::uint64_t step) {
  const piece* one = &schedule.pieces.front();
  for (; one != &schedule.pieces.back() && step > one->steps; ++one) step -= one->steps;
  return factor_of(*one, step);
}

}  // namespace troupe::model
