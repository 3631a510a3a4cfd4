// The layers of a job's network, for people.

#pragma once

#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "model/layer_network.hpp"

namespace troupe::model {

struct network_row {
  std::string part;  ///< bottom or top
  layer_row layer;
};

/// Returns the layers of the bottom MLP, if there is one, and of the top network. Requires: `check_network` accepts the
/// job.
std::vector<network_row> network_rows(const job& what, const data_spec& spec);

}  // namespace troupe::model
