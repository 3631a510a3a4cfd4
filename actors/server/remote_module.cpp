#include "actors/server/remote_module.hpp"

#include <map>
#include <utility>

#include "actors/common/failure.hpp"
#include "base/text.hpp"

namespace troupe::actors {

namespace {

std::map<std::string, module_maker>& module_types() {
  static std::map<std::string, module_maker> all = {
      {"EmbeddingBag", [](const msg::instantiate& order, module_host& host, kernels::device& where) {
         return make_remote_embedding_bag(order, where, host.tables_on(where));
       }}};
  return all;
}

}  // namespace

void add_module_type(const std::string& name, module_maker make) { module_types()[name] = std::move(make); }

caf::expected<std::unique_ptr<remote_module>> make_remote_module(const msg::instantiate& order, module_host& host,
                                                                 kernels::device& where) {
  const auto& types = module_types();
  const auto type = types.find(order.spec.type);
  if (type != types.end()) return type->second(order, host, where);
  std::vector<std::string> names;
  for (const auto& [name, make] : types)
    if (!name.empty()) names.push_back("'" + name + "'");
  return make_failure(errc::unknown_module, "module type '{}' is not registered; registered are {}", order.spec.type,
                      fmt::join(names, ", "));
}

caf::expected<remote_module::saved> write_module(const std::string& folder, std::size_t place, model::shard_of shard,
                                                 std::span<const model::tensor_view> tensors) {
  std::vector<msg::parameter_info> parts;
  parts.reserve(tensors.size());
  for (const model::tensor_view& one : tensors)
    parts.push_back({one.what.name, one.what.type, one.what.shape.at(0), one.what.shape.at(1)});
  auto file = model::write_table(folder, place, shard, tensors);
  if (!file) return make_failure(errc::exception, file.error().message);
  return remote_module::saved{std::move(*file), std::move(parts)};
}

caf::expected<model::optimizer_spec> optimizer_of(const msg::set_optimizer& chosen, model::optimizer_use use) {
  auto parsed = model::parse_optimizer(chosen.optimizer, use);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  auto schedule = model::parse_lr_schedule(chosen.schedule);
  if (!schedule)
    return make_failure(errc::bad_input, "lr_schedule {}: {}", printable(chosen.schedule), schedule.error().message);
  parsed->lr = chosen.lr;
  parsed->schedule = std::move(*schedule);
  return std::move(*parsed);
}

caf::error other_optimizer(const std::string& text, const msg::set_optimizer& chosen,
                           const model::optimizer_spec& before) {
  const auto rates = [](double lr, const std::string& schedule) {
    return schedule == "constant" ? fmt::format("lr {}", lr) : fmt::format("lr {} and lr_schedule {}", lr, schedule);
  };
  return make_failure(errc::bad_input, "{}: the optimizer {} with {}, another trainer has chosen {} with {}", text,
                      chosen.optimizer, rates(chosen.lr, chosen.schedule), model::to_string(before),
                      rates(before.lr, model::to_string(before.schedule)));
}

std::optional<call_result> remote_module::call(msg::call& what, const std::function<call_return()>& /*later*/) {
  return make_failure(errc::bad_input, "this module has no method '{}'", what.method);
}

}  // namespace troupe::actors
