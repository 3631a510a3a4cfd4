// The parts of a server's module that only tables and trained modules have, for those that have none of them.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/failure.hpp"
#include "actors/remote_module.hpp"

namespace troupe::runtime {

class untrained_module : public actors::remote_module {
 public:
  caf::error set_optimizer(const std::string& /*optimizer*/, double /*lr*/) override {
    return actors::make_failure(actors::errc::bad_input, "an optimizer of a module without parameters");
  }
  caf::error expect(const msg::bag_lookup& /*wanted*/) override { return no_table(); }
  caf::expected<lookup_future> lookup(const msg::bag_lookup& /*wanted*/, kernels::row_dtype /*type*/) override {
    return no_table();
  }
  caf::error check(const msg::bag_gradient& /*grad*/) const override { return no_table(); }
  caf::error collect(std::span<const msg::bag_gradient* const> /*grads*/, actors::contributors /*from*/) override {
    return {};
  }
  model::exact_sum squared_norm() override { return {}; }
  void apply(std::uint64_t /*update*/, float /*factor*/) override {}
  caf::error finish() override { return {}; }
  std::vector<msg::parameter_info> parameters() const override { return {}; }
  std::vector<std::pair<std::string, msg::tensor>> state_dict(actors::state_parts /*which*/) override { return {}; }
  caf::error load_state_dict(const std::vector<std::pair<std::string, msg::tensor>>& /*entries*/) override {
    return {};
  }
  caf::error check_state_dict(const std::vector<std::pair<std::string, msg::tensor>>& /*entries*/) override {
    return {};
  }
  caf::expected<saved> save(const std::string& /*folder*/) override { return no_table(); }
  caf::error restore(const model::checkpoint& /*from*/) override { return no_table(); }
  bool is_restored() const override { return false; }
  caf::expected<msg::tensor> row_digests(std::uint64_t /*first*/, std::uint64_t count) const override {
    return msg::tensor::own(count, 1, std::vector<std::uint64_t>(count));
  }

 protected:
  static caf::error no_table() { return actors::make_failure(actors::errc::bad_input, "this module is no table"); }
};

}  // namespace troupe::runtime
