// A module of a network on a server: its parameters, buffers and optimizer. Trainers' forward and backward passes run
// here. An optimizer step's gradients are applied once, when all trainers' are complete: their mean, summed in rank
// order. So the bits are those of a replica, wherever the server is and whatever the order of the messages.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "kernels/device_array.hpp"
#include "model/memory.hpp"
#include "troupe/module.hpp"
#include "troupe/runtime/module_pass.hpp"
#include "troupe/runtime/module_service.hpp"

namespace troupe::runtime {

/// Belongs to the server.
class hosted_module final : public actors::remote_module, public module_with_state {
 public:
  /// Throws `error` if the module has no code for the device of `how`.
  hosted_module(std::shared_ptr<const nn::module> module, const hosting& how, module_service& service);

  std::string description() const override { return module_->type(); }
  bool runs_users_code() const override { return true; }
  std::optional<actors::call_result> call(msg::call& what, const std::function<actors::call_return()>& later) override;

  caf::error set_optimizer(const msg::set_optimizer& chosen) override;
  caf::error collect(std::span<const msg::bag_gradient* const> grads, actors::contributors from) override;
  model::exact_sum squared_norm() override;
  void apply(std::uint64_t update, float factor) override;
  void leave_out() override { numbers_->leave_out(); }
  caf::error finish() override;

  std::vector<msg::parameter_info> parameters() const override;
  caf::expected<saved> save(const std::string& folder) override;
  caf::error restore(const model::checkpoint& from) override;
  bool is_restored() const override { return restored_.has_value(); }
  caf::expected<msg::tensor> row_digests(std::uint64_t first, std::uint64_t count) const override;

  named_tensors state_of() override;
  std::vector<nn::parameter> trained() const override { return module_->parameters(); }
  void load(const named_tensors& state) override;
  void check(const named_tensors& state) const override;
  void move_to(const std::string& device) override;

 private:
  using step_of = std::pair<std::uint64_t, std::uint32_t>;  ///< step and sender

  void begin_on(kernels::device& where);
  void forward(const msg::call& what, detail::unpacker& from, detail::packed& result);
  void backward(const msg::call& what, detail::unpacker& from, detail::packed& result);
  bool is_trained() const { return optimizer_.has_value() && count_ > 0; }
  msg::state_entries stored();
  caf::error restore_from(const model::checkpoint& from);

  // Account for memory that is not written at once:
  model::memory_claim claim_;
  model::memory_claim claim_of_mean_;
  std::shared_ptr<const nn::module> module_;
  const nn::module_tensors tensors_;
  hosting how_;
  module_service& service_;
  std::size_t count_;  ///< number of parameters
  std::optional<model::optimizer_spec> optimizer_;
  std::optional<model::checkpoint> restored_;  ///< the checkpoint that the numbers come from
  std::optional<actors::trained_parameters> numbers_;
  /// The trainers' passes, until their optimizer step.
  std::map<step_of, std::map<std::uint64_t, module_pass>> passes_;
  // The following numbers are on the module's device.
  std::map<std::uint32_t, kernels::device_array<float>> gradients_;  ///< by sender, of all its passes
  kernels::device_array<float> mean_;
  kernels::mirrored_array<kernels::non_finite> found_;
};

}  // namespace troupe::runtime
