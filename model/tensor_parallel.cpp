#include "model/tensor_parallel.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "model/sliced_linear.hpp"
#include "nn/elementwise.hpp"
#include "nn/linear.hpp"

namespace troupe::model {

namespace {

const nn::linear* as_linear(const nn::module& layer) { return dynamic_cast<const nn::linear*>(&layer); }

bool takes_each_number_by_itself(const nn::module& layer) {
  return dynamic_cast<const nn::relu*>(&layer) != nullptr || dynamic_cast<const nn::gelu*>(&layer) != nullptr;
}

}  // namespace

std::vector<layer_cut> cuts_of(const nn::sequential& whole) {
  std::vector<layer_cut> cuts(whole.size(), layer_cut::none);
  const std::size_t none = whole.size();
  std::size_t first = none;  // the first layer of a possible pair
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (as_linear(whole.at(i)) == nullptr) {
      if (!takes_each_number_by_itself(whole.at(i))) first = none;
    } else if (first == none) {
      first = i;
    } else {
      cuts[first] = layer_cut::outputs;
      cuts[i] = layer_cut::inputs;
      first = none;
    }
  }
  return cuts;
}

nn::sequential slice_of(const nn::sequential& whole, std::uint32_t slices) {
  std::vector<std::shared_ptr<const nn::module>> modules = whole.modules();
  const auto cuts = slices > 1 ? cuts_of(whole) : std::vector<layer_cut>(whole.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (cuts[i] == layer_cut::none) continue;
    nn::linear::options mine = as_linear(whole.at(i))->chosen();
    (cuts[i] == layer_cut::outputs ? mine.out_features : mine.in_features) /= slices;
    modules[i] = std::make_shared<const sliced_linear>(mine, cuts[i]);
  }
  return whole.with(std::move(modules));
}

std::optional<std::string> check_slices(const nn::sequential& whole, std::uint32_t slices, const std::string& option,
                                        const std::string& network) {
  if (slices == 1) return std::nullopt;
  const auto cuts = cuts_of(whole);
  bool has_pair = false;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (cuts[i] != layer_cut::outputs) continue;
    has_pair = true;
    const std::size_t out = as_linear(whole.at(i))->chosen().out_features;
    if (out % slices > 0)
      return fmt::format(
          "{}: layer {} ({}) has {} outputs, which {} slices cannot share equally; use a divisor of {}, or another "
          "width",
          option, i, network, out, slices, out);
  }
  if (has_pair) return std::nullopt;
  return fmt::format(
      "{}: the network ({}) has no two linear layers with only relu or gelu between them, which slices share; leave it "
      "out",
      option, network);
}

}  // namespace troupe::model
