#include "actors/traced_system.hpp"

#include <caf/detail/meta_object.hpp>
#include <string>

#include "actors/actor_name.hpp"
#include "protocol/initialize_types.hpp"
#include "protocol/type_ids.hpp"

namespace troupe {

std::vector<trace::message_type> traced_types() {
  initialize_types();
  std::vector<trace::message_type> types;
  for (caf::type_id_t id = caf::id_block::troupe::begin; id < caf::id_block::troupe::end; ++id)
    types.push_back({id, std::string(message_name(caf::query_type_name(id))), false});
  return types;
}

}  // namespace troupe
