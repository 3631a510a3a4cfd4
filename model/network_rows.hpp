// The layers of a job's network, for display.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/job.hpp"
#include "nn/tensor.hpp"

namespace troupe::model {

struct network_row {
  std::string part;  ///< bottom or top
  std::size_t number = 0;
  std::string kind;
  std::string options;  ///< `nn::options_text`
  troupe::shape in;     ///< a sample's, as is `out`
  troupe::shape out;
  std::size_t parameters = 0;
  std::uint64_t multiply_adds = 0;  ///< in matrix products of a sample's forward pass
};

/// Returns the layers of the bottom MLP, if there is one, and of the top network. Requires: `check_network` accepts the
/// job.
std::vector<network_row> network_rows(const job& what, const data_spec& spec);

}  // namespace troupe::model
