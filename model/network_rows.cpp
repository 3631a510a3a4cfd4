#include "model/network_rows.hpp"

#include "base/assert.hpp"
#include "model/hybrid.hpp"
#include "nn/samples.hpp"

namespace troupe::model {

namespace {

void append_rows(const char* part, const std::vector<nn::layer_spec>& layers, const troupe::shape& in,
                 std::vector<network_row>& to) {
  const auto made = nn::make_layers(layers, in);
  TROUPE_ASSERT(made);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& [what, from, out] = (*made)[i];
    to.push_back({part, i, what->type(), nn::options_text(layers[i]), from, out, nn::count_of(what->parameters()),
                  what->multiply_adds(nn::batch_of(1, from))});
  }
}

}  // namespace

std::vector<network_row> network_rows(const job& what, const data_spec& spec) {
  std::vector<network_row> all;
  if (has_bottom(what, spec)) append_rows("bottom", bottom_layers(what, spec), spec.dense_features, all);
  append_rows("top", layers_of_top(what, spec), top_input(what, spec), all);
  return all;
}

}  // namespace troupe::model
