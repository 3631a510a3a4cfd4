#include "troupe/runtime/remote_table.hpp"

#include <utility>

namespace troupe::runtime {

remote_table::remote_table(const model::table_spec& spec, std::vector<msg::module_ref> shards)
    : shards_(std::move(shards)) {
  spec_.tables = {spec};
}

std::vector<std::vector<msg::bag_gradient>> lookup::gradients() const {
  if (grad.count() == 0) return {};
  return client_.gradients(asked_, actors::input_gradient(grad.owner()), nullptr);
}

}  // namespace troupe::runtime
