#include "nn/own_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "nn/added_names.hpp"

namespace troupe::nn {

namespace {

struct losses {
  std::mutex mutex;
  std::vector<std::shared_ptr<const own_loss>> added;
};

losses& all_losses() {
  static losses all;
  return all;
}

constexpr std::array<std::string_view, 3> usual = {"cross-entropy", "bce-logits", "mse"};

}  // namespace

void add_loss(const std::string& name, loss_form form, loss_of_sample of_sample) {
  if (!is_added_name(name, '-'))
    throw error(error_kind::input, fmt::format("add_loss: the name '{}' must be of lower-case letters, digits and '-', "
                                               "a letter first",
                                               printable(name)));
  if (form > loss_form::values) throw error(error_kind::input, fmt::format("add_loss: {} has no such form", name));
  if (!of_sample) throw error(error_kind::input, fmt::format("add_loss: {} has no function", name));
  losses& all = all_losses();
  const std::scoped_lock lock(all.mutex);
  if (std::ranges::find(usual, name) != usual.end() ||
      std::ranges::any_of(all.added, [&](const auto& one) { return one->name == name; }))
    throw error(error_kind::input, fmt::format("add_loss: there is a loss '{}' already", name));
  all.added.push_back(std::make_shared<const own_loss>(own_loss{name, form, std::move(of_sample)}));
}

std::vector<std::shared_ptr<const own_loss>> added_losses() {
  losses& all = all_losses();
  const std::scoped_lock lock(all.mutex);
  return all.added;
}

}  // namespace troupe::nn
