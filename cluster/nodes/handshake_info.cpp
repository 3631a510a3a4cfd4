#include "cluster/nodes/handshake_info.hpp"

#include <fmt/format.h>

#include <span>

#include "base/digest.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "model/arithmetic.hpp"
#include "protocol/schema.hpp"

namespace troupe::nodes {

namespace {

links::hello common_items() {
  initialize_network_types();
  links::hello items = {{std::string(links::first_common_item), TROUPE_VERSION}};
  for (const auto& [name, value] : model::arithmetic_here()) items.emplace_back(name, value);
  for (const auto& [name, form] : protocol::message_schema())
    items.emplace_back("message " + name, fmt::format("{:016x}", digest_of(std::as_bytes(std::span(form)))));
  return items;
}

}  // namespace

links::hello handshake_info(const std::string& purpose, const std::string& session) {
  static const links::hello common = common_items();
  links::hello items = {{"purpose", purpose}, {"session", session}};
  items.insert(items.end(), common.begin(), common.end());
  return items;
}

}  // namespace troupe::nodes
