#include "model/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/job.hpp"

namespace troupe::model {

namespace {

using kernels::optimizer_kind;

// Far above useful values, far below float's overflow.
constexpr double option_max = 1e6;

// An option with a number. `nesterov`, the only other one, is parsed separately.
struct option {
  const char* name;
  double optimizer_spec::*field;
  // Values below 1 only.
  bool fraction;
};

struct optimizer_entry {
  const char* name;
  optimizer_kind kind;
  bool lazy;
  // The replacement for dense weights; null if the optimizer works for them.
  const char* for_dense;
  double default_eps;
  std::vector<option> options;
};

const std::vector<optimizer_entry>& optimizers() {
  static const option weight_decay{"weight_decay", &optimizer_spec::weight_decay, false};
  static const option eps{"eps", &optimizer_spec::eps, false};
  static const std::vector<option> of_sgd{{"momentum", &optimizer_spec::momentum, false}, weight_decay};
  static const std::vector<option> of_adagrad{
      eps, {"initial_accumulator_value", &optimizer_spec::initial_accumulator_value, false}, weight_decay};
  static const std::vector<option> of_adam{
      {"beta1", &optimizer_spec::beta1, true}, {"beta2", &optimizer_spec::beta2, true}, eps, weight_decay};
  const double no_eps = optimizer_spec{}.eps;
  static const std::vector<optimizer_entry> all{
      {"sgd", optimizer_kind::sgd, false, nullptr, no_eps, of_sgd},
      {"adagrad", optimizer_kind::adagrad, false, nullptr, 1e-10, of_adagrad},
      {"adam", optimizer_kind::adam, false, nullptr, 1e-8, of_adam},
      {"rowwise-adagrad", optimizer_kind::rowwise_adagrad, false, "adagrad", 1e-10, of_adagrad},
      {"lazy-sgd", optimizer_kind::sgd, true, "sgd", no_eps, of_sgd},
      {"lazy-adam", optimizer_kind::adam, true, "adam", 1e-8, of_adam}};
  return all;
}

const optimizer_entry& entry_of(const optimizer_spec& spec) {
  return *std::ranges::find_if(
      optimizers(), [&spec](const optimizer_entry& one) { return one.kind == spec.kind && one.lazy == spec.lazy; });
}

optimizer_spec defaults_of(const optimizer_entry& entry) {
  optimizer_spec spec;
  spec.kind = entry.kind;
  spec.lazy = entry.lazy;
  spec.eps = entry.default_eps;
  return spec;
}

std::vector<std::string> option_names(const optimizer_entry& entry) {
  std::vector<std::string> names;
  for (const auto& known : entry.options) names.emplace_back(known.name);
  if (entry.kind == optimizer_kind::sgd) names.emplace_back("nesterov");
  return names;
}

// Each returns an error text, or null.
std::optional<std::string> read_number(optimizer_spec& spec, const option& known, std::string_view value) {
  const auto number = parse_number<double>(value);
  if (!number) return fmt::format("{} must be a number, not {}", known.name, printable(value));
  if (known.fraction && !(*number >= 0 && *number < 1))
    return fmt::format("{} must be at least 0 and below 1, not {}", known.name, *number);
  if (!(*number >= 0 && *number <= option_max))
    return fmt::format("{} must be between 0 and {:.0f}, not {}", known.name, option_max, *number);
  spec.*known.field = *number;
  return std::nullopt;
}

std::optional<std::string> read_option(optimizer_spec& spec, const optimizer_entry& entry, std::string_view key,
                                       std::string_view value) {
  if (entry.kind == optimizer_kind::sgd && key == "nesterov") {
    if (value != "true" && value != "false")
      return fmt::format("nesterov must be true or false, not {}", printable(value));
    spec.nesterov = value == "true";
    return std::nullopt;
  }
  const auto known = std::ranges::find(entry.options, key, &option::name);
  if (known != entry.options.end()) return read_number(spec, *known, value);
  const auto names = option_names(entry);
  return fmt::format("{} has no option {}; the nearest is {}, and there are {}", entry.name, printable(key),
                     nearest(std::string(key), names), alternatives(names));
}

std::optional<std::string> read_options(optimizer_spec& spec, const optimizer_entry& entry, std::string_view text) {
  std::vector<std::string_view> seen;
  for (const auto part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos)
      return fmt::format("option {} must be of the form key=value", printable(part));
    const auto key = part.substr(0, equals);
    if (std::ranges::find(seen, key) != seen.end()) return fmt::format("{} is given twice", printable(key));
    seen.push_back(key);
    if (auto wrong = read_option(spec, entry, key, part.substr(equals + 1))) return wrong;
  }
  return std::nullopt;
}

std::string unknown_name(std::string_view name, optimizer_use use) {
  std::vector<std::string> names;
  for (const auto& entry : optimizers())
    if (use == optimizer_use::table || entry.for_dense == nullptr) names.emplace_back(entry.name);
  return fmt::format("unknown optimizer {}; the nearest is {}, and there are {}", printable(name),
                     nearest(std::string(name), names), alternatives(names));
}

}  // namespace

result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto entry = std::ranges::find(optimizers(), name, &optimizer_entry::name);
  if (entry == optimizers().end()) return bad_input(unknown_name(name, use));
  if (use == optimizer_use::dense && entry->for_dense != nullptr)
    return bad_input("{} is for the rows of tables only; use {}", name, entry->for_dense);
  optimizer_spec spec = defaults_of(*entry);
  if (colon != std::string_view::npos) {
    if (auto wrong = read_options(spec, *entry, text.substr(colon + 1))) return bad_input(std::move(*wrong));
  }
  if (spec.nesterov && spec.momentum == 0) return bad_input("nesterov needs a momentum above 0, such as momentum=0.9");
  return spec;
}

std::string to_string(const optimizer_spec& spec) {
  const auto& entry = entry_of(spec);
  const auto defaults = defaults_of(entry);
  std::string options;
  const auto append = [&options](const std::string& one) { options += (options.empty() ? ":" : ",") + one; };
  for (const auto& known : entry.options)
    if (spec.*known.field != defaults.*known.field) append(fmt::format("{}={}", known.name, spec.*known.field));
  if (spec.nesterov) append("nesterov=true");
  return entry.name + options;
}

std::string rule_of(const optimizer_spec& spec) {
  optimizer_spec all_rows = spec;
  all_rows.lazy = false;
  return entry_of(all_rows).name;
}

kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step) {
  kernels::update_constants c;
  const double lr = spec.lr * factor_at(spec.schedule, step);
  c.kind = spec.kind;
  c.lr = static_cast<float>(lr);
  c.weight_decay = static_cast<float>(spec.weight_decay);
  c.momentum = static_cast<float>(spec.momentum);
  c.nesterov = spec.nesterov;
  c.eps = static_cast<float>(spec.eps);
  if (spec.kind == optimizer_kind::adam) {
    const auto t = static_cast<double>(step);
    c.lr = static_cast<float>(lr / (1 - std::pow(spec.beta1, t)));
    c.beta1 = static_cast<float>(spec.beta1);
    c.beta2 = static_cast<float>(spec.beta2);
    c.one_minus_beta1 = static_cast<float>(1 - spec.beta1);
    c.one_minus_beta2 = static_cast<float>(1 - spec.beta2);
    c.bias_correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(spec.beta2, t)));
  }
  return c;
}

int state_buffers(const optimizer_spec& spec) {
  switch (spec.kind) {
    case optimizer_kind::sgd:
      return spec.momentum != 0 ? 1 : 0;
    case optimizer_kind::adagrad:
    case optimizer_kind::rowwise_adagrad:
      return 1;
    case optimizer_kind::adam:
      return 2;
  }
  return 0;
}

std::size_t state_columns(const optimizer_spec& spec, std::size_t dim) {
  return spec.kind == optimizer_kind::rowwise_adagrad ? 1 : dim;
}

// 0 for optimizers without the option.
float initial_state(const optimizer_spec& spec) { return static_cast<float>(spec.initial_accumulator_value); }

bool visits_every_row(const optimizer_spec& spec) {
  if (spec.lazy || spec.kind == optimizer_kind::rowwise_adagrad) return false;
  return spec.kind == optimizer_kind::adam || spec.weight_decay != 0 || spec.momentum != 0;
}

}  // namespace troupe::model
