#include "model/network_rows.hpp"

#include "base/assert.hpp"
#include "model/hybrid.hpp"

namespace troupe::model {

namespace {

void append_rows(const char* part, const std::vector<layer_spec>& layers, const sample_shape& in,
                 std::vector<network_row>& to) {
  const auto made = layer_network::make(layers, in);
  TROUPE_ASSERT(made);
  for (const layer_row& row : made->rows()) to.push_back({part, row});
}

}  // namespace

std::vector<network_row> network_rows(const job& what, const data_spec& spec) {
  std::vector<network_row> all;
  if (has_bottom(what, spec)) {
    auto bottom = mlp_layers(what.bottom_hidden.value_or(default_bottom_hidden()), spec.tables.front().dim);
    bottom.push_back({.kind = layer_kind::relu});
    append_rows("bottom", bottom, {spec.dense_features}, all);
  }
  const auto top = top_layers(what, spec);
  const sample_shape in = top_input(what, spec);
  if (top.empty())  // an MLP takes an image's pixels side by side
    append_rows("top", mlp_layers(what.hidden, spec.outputs), {count_of(in)}, all);
  else
    append_rows("top", top, in, all);
  return all;
}

}  // namespace troupe::model
