#include "nn/own_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "nn/added_names.hpp"

namespace troupe::nn {

namespace {

added_names<std::shared_ptr<const own_loss>>& all_losses() {
  static added_names<std::shared_ptr<const own_loss>> all("add_loss", "a loss");
  return all;
}

constexpr std::array<std::string_view, 3> usual_losses = {"cross-entropy", "bce-logits", "mse"};

}  // namespace

void add_loss(const std::string& name, loss_form form, loss_of_sample of_sample) {
  check_added_name("add_loss", "name", name, '-');
  if (form > loss_form::values) throw error(error_kind::input, fmt::format("add_loss: {} has no such form", name));
  if (!of_sample) throw error(error_kind::input, fmt::format("add_loss: {} has no function", name));
  all_losses().add(name, std::ranges::find(usual_losses, name) != usual_losses.end(),
                   std::make_shared<const own_loss>(own_loss{name, form, std::move(of_sample)}));
}

std::vector<std::shared_ptr<const own_loss>> added_losses() { return all_losses().all(); }

}  // namespace troupe::nn
