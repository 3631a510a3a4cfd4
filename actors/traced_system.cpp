#include "actors/traced_system.hpp"

#include <string>

#include "protocol/message_types.hpp"

namespace troupe::actors {

std::vector<trace::message_type> traced_types() {
  std::vector<trace::message_type> types;
  for (const protocol::message_type& type : protocol::all_message_types())
    types.push_back({type.number, std::string(type.name)});
  return types;
}

}  // namespace troupe::actors
