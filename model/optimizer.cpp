#include "model/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/job.hpp"

namespace troupe::model {

namespace {

using kernels::optimizer_kind;

// Far above useful values, far below float's overflow.
constexpr double option_max = 1e6;

using option_fault = std::optional<std::string>;

/// An option by its name, in the options that have it.
struct option {
  const char* name;
  std::variant<double*, bool*> value;
  bool is_fraction = false;  ///< values below 1 only
};

// Each describes an optimizer, in the order of its text.
std::vector<option> described(sgd_options& of) {
  return {{"momentum", &of.momentum}, {"weight_decay", &of.weight_decay}, {"nesterov", &of.nesterov}};
}
std::vector<option> described(adagrad_options& of) {
  return {{"eps", &of.eps},
          {"initial_accumulator_value", &of.initial_accumulator_value},
          {"weight_decay", &of.weight_decay}};
}
std::vector<option> described(adam_options& of) {
  return {{"beta1", &of.beta1, true}, {"beta2", &of.beta2, true}, {"eps", &of.eps}, {"weight_decay", &of.weight_decay}};
}

std::vector<option> described(optimizer_options& of) {
  return std::visit([](auto& mine) { return described(mine); }, of);
}

struct optimizer_entry {
  const char* name;
  optimizer_kind kind;
  optimizer_options defaults;
  // The replacement for dense weights; null if the optimizer works for them.
  const char* for_dense = nullptr;
};

// In the order of `optimizer_options`.
constexpr std::array optimizers{
    optimizer_entry{"sgd", optimizer_kind::sgd, sgd_options()},
    optimizer_entry{"adagrad", optimizer_kind::adagrad, adagrad_options()},
    optimizer_entry{"adam", optimizer_kind::adam, adam_options()},
    optimizer_entry{"rowwise-adagrad", optimizer_kind::rowwise_adagrad, rowwise_adagrad_options(), "adagrad"},
    optimizer_entry{"lazy-sgd", optimizer_kind::sgd, lazy_sgd_options(), "sgd"},
    optimizer_entry{"lazy-adam", optimizer_kind::adam, lazy_adam_options(), "adam"}};

constexpr std::size_t dense_optimizers = 3;  // the first ones

const optimizer_entry& entry_of(const optimizer_spec& spec) { return optimizers.at(spec.options.index()); }

/// Returns `name=value` of each option.
std::vector<std::string> texts_of(optimizer_options of) {
  std::vector<std::string> texts;
  for (const option& one : described(of))
    texts.push_back(std::visit([&](const auto* value) { return fmt::format("{}={}", one.name, *value); }, one.value));
  return texts;
}

std::string text_with(const optimizer_spec& spec, const std::vector<std::string>& options) {
  return fmt::format("{}{}{}", entry_of(spec).name, options.empty() ? "" : ":", fmt::join(options, ","));
}

option_fault check(const option& one) {
  const auto* const number = std::get_if<double*>(&one.value);
  if (number == nullptr) return std::nullopt;
  if (one.is_fraction && !(**number >= 0 && **number < 1))
    return fmt::format("{} must be at least 0 and below 1, not {}", one.name, **number);
  if (!(**number >= 0 && **number <= option_max))
    return fmt::format("{} must be between 0 and {:.0f}, not {}", one.name, option_max, **number);
  return std::nullopt;
}

option_fault read_value(const option& one, std::string_view text) {
  if (bool* const* flag = std::get_if<bool*>(&one.value)) {
    if (text != "true" && text != "false")
      return fmt::format("{} must be true or false, not {}", one.name, printable(text));
    **flag = text == "true";
    return std::nullopt;
  }
  const auto number = parse_number<double>(text);
  if (!number) return fmt::format("{} must be a number, not {}", one.name, printable(text));
  *std::get<double*>(one.value) = *number;
  return check(one);
}

option_fault read_options(optimizer_spec& spec, std::string_view text) {
  const std::vector<option> all = described(spec.options);
  std::vector<std::string_view> seen;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos)
      return fmt::format("option {} must be of the form key=value", printable(part));
    const auto key = part.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) return fmt::format("{} is given twice", printable(key));
    seen.push_back(key);
    const auto known = std::ranges::find(all, key, &option::name);
    if (known == all.end())
      return fmt::format("{} has no option {}; {}", entry_of(spec).name, printable(key),
                         suggestions(key, names_in(all, &option::name)));
    if (auto wrong = read_value(*known, part.substr(equals + 1))) return wrong;
  }
  return std::nullopt;
}

}  // namespace

result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto* const entry = std::ranges::find(optimizers, name, &optimizer_entry::name);
  if (entry == optimizers.end()) {
    // Those for dense weights come first.
    const auto all = std::span(optimizers).first(use == optimizer_use::dense ? dense_optimizers : optimizers.size());
    return bad_input("unknown optimizer {}; {}", printable(name),
                     suggestions(name, names_in(all, &optimizer_entry::name)));
  }
  if (use == optimizer_use::dense && entry->for_dense != nullptr)
    return bad_input("{} is for the rows of tables only; use {}", name, entry->for_dense);
  optimizer_spec spec;
  spec.options = entry->defaults;
  if (colon != std::string_view::npos)
    if (auto wrong = read_options(spec, text.substr(colon + 1))) return bad_input(std::move(*wrong));
  if (auto wrong = check_options(spec)) return bad_input(std::move(*wrong));
  return spec;
}

std::optional<std::string> check_options(const optimizer_spec& spec) {
  optimizer_options options = spec.options;
  for (const option& one : described(options))
    if (auto wrong = check(one)) return wrong;
  if (const auto* sgd = spec.as<sgd_options>(); sgd != nullptr && sgd->nesterov && sgd->momentum == 0)
    return "nesterov needs a momentum above 0, such as momentum=0.9";
  return std::nullopt;
}

std::string to_string(const optimizer_spec& spec) {
  std::vector<std::string> options = texts_of(spec.options);
  const std::vector<std::string> usual = texts_of(entry_of(spec).defaults);
  std::erase_if(options, [&](const std::string& one) { return std::ranges::find(usual, one) != usual.end(); });
  return text_with(spec, options);
}

std::string full_text(const optimizer_spec& spec) {
  std::vector<std::string> options = texts_of(spec.options);
  if (spec.as<adagrad_options>() != nullptr) std::ranges::reverse(options);
  std::erase(options, "nesterov=false");
  return text_with(spec, options);
}

std::string rule_of(const optimizer_spec& spec) {
  return std::ranges::find(optimizers, entry_of(spec).kind, &optimizer_entry::kind)->name;
}

kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step) {
  const double lr = spec.lr * factor_at(spec.schedule, step);
  const auto weight_decay = [](const auto& mine) { return static_cast<float>(mine.weight_decay); };
  kernels::update_constants c{.kind = entry_of(spec).kind,
                              .lr = static_cast<float>(lr),
                              .weight_decay = std::visit(weight_decay, spec.options)};
  if (const auto* sgd = spec.as<sgd_options>()) {
    c.momentum = static_cast<float>(sgd->momentum);
    c.nesterov = sgd->nesterov;
  }
  if (const auto* adagrad = spec.as<adagrad_options>()) c.eps = static_cast<float>(adagrad->eps);
  if (const auto* adam = spec.as<adam_options>()) {
    const auto t = static_cast<double>(step);
    c.lr = static_cast<float>(lr / (1 - std::pow(adam->beta1, t)));
    c.eps = static_cast<float>(adam->eps);
    c.beta1 = static_cast<float>(adam->beta1);
    c.beta2 = static_cast<float>(adam->beta2);
    c.one_minus_beta1 = static_cast<float>(1 - adam->beta1);
    c.one_minus_beta2 = static_cast<float>(1 - adam->beta2);
    c.bias_correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(adam->beta2, t)));
  }
  return c;
}

int state_buffers(const optimizer_spec& spec) {
  if (const auto* sgd = spec.as<sgd_options>()) return sgd->momentum != 0 ? 1 : 0;
  return spec.as<adam_options>() != nullptr ? 2 : 1;
}

std::size_t state_columns(const optimizer_spec& spec, std::size_t dim) {
  return spec.as<rowwise_adagrad_options>() != nullptr ? 1 : dim;
}

float initial_state(const optimizer_spec& spec) {
  const auto* adagrad = spec.as<adagrad_options>();
  return adagrad == nullptr ? 0 : static_cast<float>(adagrad->initial_accumulator_value);
}

bool visits_every_row(const optimizer_spec& spec) {
  if (entry_of(spec).for_dense != nullptr) return false;
  const auto* sgd = spec.as<sgd_options>();
  const bool decays = std::visit([](const auto& mine) { return mine.weight_decay != 0; }, spec.options);
  return decays || spec.as<adam_options>() != nullptr || (sgd != nullptr && sgd->momentum != 0);
}

}  // namespace troupe::model
