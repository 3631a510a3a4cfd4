#include "model/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "kernels/device.hpp"
#include "model/job.hpp"

namespace troupe::model {

namespace {

using kernels::optimizer_kind;

// Far above useful values, far below float's overflow.
constexpr double option_max = 1e6;

using option_fault = std::optional<std::string>;

/// An option's name, and its value in the options that have it.
struct option {
  const char* name;
  std::variant<double*, bool*> value;
  bool is_fraction = false;  ///< values below 1 only
};

// Each returns an optimizer's options, in the order of its text.
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
std::vector<option> described(nn::own_optimizer_choice& /*of*/) { return {}; }  // checked when it is chosen

std::vector<option> described(optimizer_options& of) {
  return std::visit([](auto& mine) { return described(mine); }, of);
}

template <class Options>
optimizer_options defaults_of() {
  return Options();
}

struct optimizer_entry {
  const char* name;
  optimizer_kind kind;
  optimizer_options (*defaults)();
  // The replacement for dense weights; null if the optimizer is for dense weights.
  const char* for_dense = nullptr;
};

// In the order of `optimizer_options`.
constexpr std::array optimizers{
    optimizer_entry{"sgd", optimizer_kind::sgd, defaults_of<sgd_options>},
    optimizer_entry{"adagrad", optimizer_kind::adagrad, defaults_of<adagrad_options>},
    optimizer_entry{"adam", optimizer_kind::adam, defaults_of<adam_options>},
    optimizer_entry{"rowwise-adagrad", optimizer_kind::rowwise_adagrad, defaults_of<rowwise_adagrad_options>,
                    "adagrad"},
    optimizer_entry{"lazy-sgd", optimizer_kind::sgd, defaults_of<lazy_sgd_options>, "sgd"},
    optimizer_entry{"lazy-adam", optimizer_kind::adam, defaults_of<lazy_adam_options>, "adam"}};

constexpr std::size_t dense_optimizers = 3;  // the first ones

/// Requires: it is one of Troupe's optimizers.
const optimizer_entry& entry_of(const optimizer_spec& spec) { return optimizers.at(spec.options.index()); }

std::string name_of(const optimizer_spec& spec) { return spec.own() ? spec.own()->name() : entry_of(spec).name; }

double weight_decay_of(const optimizer_spec& spec) {
  return std::visit(
      [](const auto& mine) {
        if constexpr (requires { mine.weight_decay; }) return mine.weight_decay;
        return 0.0;
      },
      spec.options);
}

/// Returns `name=value` of each option.
std::vector<std::string> texts_of(optimizer_options of) {
  std::vector<std::string> texts;
  for (const option& one : described(of))
    texts.push_back(std::visit([&](const auto* value) { return fmt::format("{}={}", one.name, *value); }, one.value));
  return texts;
}

/// The same, but only the options that are needed to make an equal optimizer of the program's.
std::vector<std::string> texts_of(const nn::chosen_optimizer& of) {
  std::vector<std::string> texts;
  for (const auto& one : of.options().fields())
    if (one.is_required || !one.is_default)
      texts.push_back(std::visit([&](const auto& value) { return fmt::format("{}={}", one.name, value); }, one.value));
  return texts;
}

std::string text_with(const optimizer_spec& spec, const std::vector<std::string>& options) {
  return fmt::format("{}{}{}", name_of(spec), options.empty() ? "" : ":", fmt::join(options, ","));
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

/// Reads `key=value,...`: calls `read(i, value)`, which returns an error text or null, for each given option.
template <class Read>
option_fault read_options(const std::string& optimizer, const std::vector<std::string>& names, std::string_view text,
                          const Read& read) {
  std::vector<std::string_view> seen;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos)
      return fmt::format("option {} must be of the form key=value", printable(part));
    const auto key = part.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) return fmt::format("{} is given twice", printable(key));
    seen.push_back(key);
    const auto known = std::ranges::find(names, key);
    if (known == names.end())
      return fmt::format("{} has no option {}; {}", optimizer, printable(key),
                         names.empty() ? "it has none" : suggestions(key, names));
    const auto number = static_cast<std::size_t>(known - names.begin());
    if (auto wrong = read(number, part.substr(equals + 1))) return wrong;
  }
  return std::nullopt;
}

option_fault read_options(optimizer_spec& spec, std::string_view text) {
  const std::vector<option> all = described(spec.options);
  return read_options(name_of(spec), names_in(all, &option::name), text,
                      [&](std::size_t i, std::string_view value) { return read_value(all[i], value); });
}

// -- optimizers that a program has added -------------------------------------------------

/// Returns the value of an option's text; null: it is neither a number, nor true or false.
std::optional<nn::option_value> own_value(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = parse_number<std::uint64_t>(text)) return *whole;
  if (const auto integer = parse_number<std::int64_t>(text); integer && *integer < 0) return *integer;
  if (const auto real = parse_number<double>(text)) return *real;
  return std::nullopt;
}

option_fault read_options(const std::string& optimizer, std::optional<std::string_view> text,
                          nn::detail::own_optimizer_options& to) {
  const auto fields = to.fields();
  std::vector<std::optional<std::pair<nn::option_value, std::string>>> given(fields.size());
  const auto fault = [&](std::size_t i, std::string_view value) {
    return fmt::format("{} must be {}, not {}", fields[i].name, fields[i].limit, printable(value));
  };
  if (text) {
    auto wrong = read_options(optimizer, names_in(fields, &nn::detail::added_options::field::name), *text,
                              [&](std::size_t i, std::string_view value) -> option_fault {
                                const auto number = own_value(value);
                                if (!number) return fault(i, value);
                                given[i].emplace(*number, value);
                                return std::nullopt;
                              });
    if (wrong) return wrong;
  }
  // Limits may depend on other options, wherever they are in the text.
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (given[i]) to.set(i, given[i]->first);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].is_required && !given[i])
      return fmt::format("{} needs the option {}, which must be {}", optimizer, fields[i].name, fields[i].limit);
    if (given[i] && !to.set(i, given[i]->first)) return fault(i, given[i]->second);
  }
  return std::nullopt;
}

result<optimizer_spec> choose_own(const nn::added_optimizer& which, std::optional<std::string_view> text) {
  auto options = which.with_defaults->copy();
  if (auto wrong = read_options(which.name, text, *options)) return bad_input(std::move(*wrong));
  try {
    const auto made = std::make_shared<const nn::chosen_optimizer>(which.name, std::move(options));
    return optimizer_spec{nn::own_optimizer_choice{made}};
  } catch (const error& e) {
    return bad_input(e.what());
  }
}

}  // namespace

result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto options =
      colon == std::string_view::npos ? std::nullopt : std::optional<std::string_view>(text.substr(colon + 1));
  const auto added = nn::added_optimizers();
  if (const auto own = std::ranges::find(added, name, &nn::added_optimizer::name); own != added.end())
    return choose_own(*own, options);
  const auto* const entry = std::ranges::find(optimizers, name, &optimizer_entry::name);
  if (entry == optimizers.end()) {
    // Optimizers for dense weights come first.
    const auto all = std::span(optimizers).first(use == optimizer_use::dense ? dense_optimizers : optimizers.size());
    std::vector<std::string> names = names_in(all, &optimizer_entry::name);
    std::ranges::copy(names_in(added, &nn::added_optimizer::name), std::back_inserter(names));
    return bad_input("unknown optimizer {}; {}", printable(name), suggestions(name, names));
  }
  if (use == optimizer_use::dense && entry->for_dense != nullptr)
    return bad_input("{} is for the rows of tables only; use {}", name, entry->for_dense);
  optimizer_spec spec;
  spec.options = entry->defaults();
  if (options)
    if (auto wrong = read_options(spec, *options)) return bad_input(std::move(*wrong));
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
  if (const auto* own = spec.own()) return text_with(spec, texts_of(*own));
  std::vector<std::string> options = texts_of(spec.options);
  const std::vector<std::string> usual = texts_of(entry_of(spec).defaults());
  std::erase_if(options, [&](const std::string& one) { return std::ranges::find(usual, one) != usual.end(); });
  return text_with(spec, options);
}

std::string full_text(const optimizer_spec& spec) {
  if (spec.own()) return to_string(spec);
  std::vector<std::string> options = texts_of(spec.options);
  if (spec.as<adagrad_options>() != nullptr) std::ranges::reverse(options);
  std::erase(options, "nesterov=false");
  return text_with(spec, options);
}

std::string rule_of(const optimizer_spec& spec) {
  if (const auto* own = spec.own()) return own->name();
  return std::ranges::find(optimizers, entry_of(spec).kind, &optimizer_entry::kind)->name;
}

std::optional<std::string> device_fault(const optimizer_spec& spec, const kernels::device& where, const char* option) {
  if (spec.own() == nullptr || where.is_host()) return std::nullopt;
  return fmt::format("the optimizer {} computes on the processor, not on CUDA device {}; use {} cpu",
                     spec.own()->name(), where.number(), option);
}

kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step) {
  const double lr = spec.lr * factor_at(spec.schedule, step);
  if (const auto* own = spec.own()) return {.kind = optimizer_kind::own, .own = {own, lr, step}};
  kernels::update_constants c{.kind = entry_of(spec).kind,
                              .lr = static_cast<float>(lr),
                              .weight_decay = static_cast<float>(weight_decay_of(spec))};
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
  if (const auto* own = spec.own()) return own->state_buffers();
  if (const auto* sgd = spec.as<sgd_options>()) return sgd->momentum != 0 ? 1 : 0;
  return spec.as<adam_options>() != nullptr ? 2 : 1;
}

std::size_t state_columns(const optimizer_spec& spec, std::size_t dim) {
  return spec.as<rowwise_adagrad_options>() != nullptr ? 1 : dim;
}

float initial_state(const optimizer_spec& spec) {
  if (const auto* own = spec.own()) return own->initial_state();
  const auto* adagrad = spec.as<adagrad_options>();
  return adagrad == nullptr ? 0 : static_cast<float>(adagrad->initial_accumulator_value);
}

bool visits_every_row(const optimizer_spec& spec) {
  if (spec.own() != nullptr || entry_of(spec).for_dense != nullptr) return false;
  const auto* sgd = spec.as<sgd_options>();
  return weight_decay_of(spec) != 0 || spec.as<adam_options>() != nullptr || (sgd != nullptr && sgd->momentum != 0);
}

}  // namespace troupe::model
