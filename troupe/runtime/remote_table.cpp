#include "troupe/runtime/remote_table.hpp"

namespace troupe::runtime {

std::vector<std::vector<msg::bag_gradient>> lookup::gradients() const {
  if (grad.count() == 0) return {};
  return client_.gradients(asked_, actors::input_gradient(grad.owner()), nullptr);
}

}  // namespace troupe::runtime
