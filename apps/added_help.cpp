#include "apps/added_help.hpp"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "nn/own_data.hpp"
#include "nn/own_layer.hpp"
#include "nn/own_loss.hpp"
#include "nn/own_metric.hpp"
#include "nn/own_optimizer.hpp"

namespace troupe::apps {

namespace {

/// A line of two columns, as in the help of an option.
void append_line(std::string& to, const std::string& name, std::string_view meaning) {
  fmt::format_to(std::back_inserter(to), "  {:<27} {}\n", name, meaning);
}

const char* outputs_of(nn::loss_form form) {
  switch (form) {
    case nn::loss_form::classes:
      return "an output for each class";
    case nn::loss_form::logits:
      return "one output, the logit of class 1";
    case nn::loss_form::values:
      return "an output for each target";
  }
  return "";
}

void append_options(std::string& to, const nn::detail::added_options& all) {
  for (const auto& one : all.fields())
    append_line(
        to, "  " + one.name,
        fmt::format("{} ({})", one.limit, one.is_required ? "required" : "default: " + nn::shown_value(one.value)));
}

}  // namespace

std::string added_help() {
  std::string all;
  for (const auto& one : nn::added_layers()) {
    append_line(all, one.kind, "a layer");
    append_options(all, *one.chosen);
  }
  for (const auto& one : nn::added_losses())
    append_line(all, one->name, fmt::format("a loss: {}", outputs_of(one->form)));
  for (const auto& one : nn::added_metrics())
    append_line(all, one->name, fmt::format("a metric: {}", outputs_of(one->form)));
  for (const auto& one : nn::added_optimizers()) {
    append_line(all, one.name, "an optimizer");
    append_options(all, *one.with_defaults);
  }
  for (const auto& one : nn::added_data()) append_line(all, one.name, "a data set");
  return all.empty() ? all : fmt::format("Added by this program:\n{}\n", all);
}

}  // namespace troupe::apps
