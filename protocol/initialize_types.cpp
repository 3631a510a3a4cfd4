#include "protocol/initialize_types.hpp"

#include <caf/init_global_meta_objects.hpp>

#include "protocol/messages.hpp"

namespace troupe::protocol {

void initialize_types() {
  static const bool done = [] {
    caf::core::init_global_meta_objects();
    caf::init_global_meta_objects<caf::id_block::troupe>();
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace troupe::protocol
