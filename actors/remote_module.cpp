#include "actors/remote_module.hpp"

#include <map>

#include "actors/failure.hpp"
#include "base/text.hpp"

namespace troupe::actors {

caf::expected<std::unique_ptr<remote_module>> make_remote_module(const msg::instantiate& order,
                                                                 kernels::device& where) {
  static const std::map<std::string, decltype(&make_remote_embedding_bag)> registry = {
      {"EmbeddingBag", make_remote_embedding_bag}};
  const auto type = registry.find(order.spec.type);
  if (type != registry.end()) return type->second(order, where);
  std::vector<std::string> names;
  for (const auto& [name, make] : registry) names.push_back(name);
  return make_failure(errc::unknown_module, "module type '{}' is not registered; the nearest is '{}'", order.spec.type,
                      nearest(order.spec.type, names));
}

}  // namespace troupe::actors
