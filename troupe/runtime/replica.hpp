// One trainer's replica of a user's module: its parameters, which all trainers train together, and its passes in the
// tapes of contexts.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "model/memory.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/module.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/kept_state.hpp"
#include "troupe/runtime/step_rules.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

class network_part;
class pipeline_stage;
class tensor_slice;

/// Belongs to a trainer.
class replica {
 public:
  /// `number`: the replica's number in this trainer; with the seed it determines the initial parameters. A resumed run
  /// restores those of `from`, which outlives this. `rank`: the trainer's; `where`: its device. `slice`: the slice that
  /// `module` is; null: the whole module. Throws `error` if an option, the module's ranges or the number of buckets are
  /// wrong, or if the module has no code for the device.
  replica(std::shared_ptr<const nn::module> module, std::shared_ptr<tensor_slice> slice,
          const data_parallel_options& options, std::uint64_t seed, std::uint64_t number, std::uint32_t first_bucket,
          const kept_state& from, std::uint32_t rank, const step_rules& rules, kernels::device& where);

  /// How a pass differs from that of an independent module.
  struct pass_options {
    /// As in `module_pass`.
    const tensor* state = nullptr;
    /// Seeds the pass's random numbers. None: the context's next key.
    std::optional<std::uint64_t> key = {};
    /// A copy of earlier weights (`trained_parameters::copy_of_weights`). Null: the newest.
    std::shared_ptr<const float> weights = nullptr;
  };
  sequence_part apply(tape& on, const tensor& input, const pass_options& how);
  sequence_part apply(tape& on, const tensor& input) { return apply(on, input, pass_options()); }

  /// Makes it a stage of a pipeline, which outlives it: reduced with the same stage of other replicas.
  void join(pipeline_stage& of) { stage_ = &of; }
  /// Null if it is not a stage.
  pipeline_stage* stage() const { return stage_; }
  /// Its part of the network, as a stage or a slice; null if it is whole.
  network_part* part() const;
  /// Whether an earlier slice of its network has the same batch, and counts it.
  bool shares_batch() const;
  /// The group that it is reduced with; null for all trainers, or for none.
  const troupe::group* group() const;

  /// Throws `error` if there is an optimizer already, or too little memory for its state.
  void set_optimizer(const model::optimizer_spec& chosen);

  /// Computes the gradient of the context's passes, as buckets; see `trained_parameters::backward`. Does nothing if the
  /// context had no backward pass: then this trainer does not count in the mean. `is_last`: of the optimizer step.
  void backward(tape& of, std::uint64_t step, bool is_last, function_ref<void(std::uint32_t bucket)> full);

  /// Adds parameters, the optimizer's state and buffers to a checkpoint.
  void put(msg::save_dense& into);

  /// See `data_parallel`. They throw `error` during an optimizer step.
  std::vector<float> parameters();
  named_tensors state_dict() const;
  void load_state_dict(const named_tensors& state);

  /// Whether it is equal on all trainers, or a part of a network that is.
  bool is_synchronized() const { return is_synchronized_; }
  /// Whether all trainers take its steps together.
  bool is_in_step() const { return is_synchronized_ || group() != nullptr; }
  /// Whether the trainer of this rank saves it.
  bool is_saved_by(std::uint32_t rank) const;
  /// Whether its training passes exchange numbers with those of other trainers.
  bool synchronizes() const { return module_->synchronizes(); }
  /// Whether its passes wait for other trainers.
  bool waits_in_passes() const { return synchronizes() || slice_ != nullptr; }
  /// The name in texts for users: the user's name for it, or the module's type.
  const std::string& label() const { return label_; }
  /// The same on all trainers: the module's type and the replica's name.
  std::string description() const { return module_->type() + " " + name_; }
  actors::trained_parameters& numbers() { return numbers_; }
  /// The index of its first bucket among those that the trainer shares with all others, and how many it has there. A
  /// replica that is reduced with only some trainers has one, with which all trainers agree on what follows a step.
  std::uint32_t first_bucket() const { return first_bucket_; }
  std::uint32_t buckets() const { return group() != nullptr ? 1 : numbers_.buckets(); }

 private:
  friend class application;

  void check_settled(const char* what) const;
  std::vector<float> restored(const std::vector<nn::parameter>& tensors, const std::string& suffix) const;

  model::memory_claim claim_;  ///< of memory that is not written at once
  std::shared_ptr<const nn::module> module_;
  const nn::module_tensors tensors_;
  std::shared_ptr<tensor_slice> slice_;  ///< null if it has the whole module
  std::uint64_t number_;
  std::shared_ptr<const model::memory_claim> claim_of_mean_;
  std::vector<nn::parameter_range> ranges_;
  bool is_synchronized_;
  std::optional<troupe::group> group_;
  std::string name_;   ///< in checkpoints
  std::string label_;  ///< in traces and errors
  const kept_state& from_;
  std::uint32_t first_bucket_;
  pipeline_stage* stage_ = nullptr;
  bool has_optimizer_ = false;
  bool is_restored_ = false;   ///< from the checkpoint
  bool is_made_late_ = false;  ///< made in the iteration after the checkpoint's position, as before in an earlier one
  actors::trained_parameters numbers_;
};

}  // namespace troupe::runtime
