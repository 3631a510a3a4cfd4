// A module with a replica on every trainer. All replicas begin with the same parameters, and every optimizer step
// applies the mean of the trainers' gradients, summed in rank order, so all keep the same bits. Gradients are sent in
// buckets while earlier layers are still computed.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/context.hpp"
#include "troupe/group.hpp"
#include "troupe/source_location.hpp"
#include "troupe/state.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trained.hpp"

namespace troupe {

/// How a replica's gradients are reduced, and its name.
struct data_parallel_options {
  /// The size of a bucket, except the first, which is smaller. A parameter range of the module is not cut.
  double bucket_mib = 25;
  /// Whether optimizer steps apply the mean of all trainers' gradients. If not, each trainer applies its own gradient:
  /// replicas begin equal and then differ, unless the trainer function makes them equal, for example by collectives
  /// (group.hpp). The run's digest leaves them out, and checkpoints hold every trainer's.
  bool synchronized = true;
  /// Optimizer steps apply the mean over this group's members, which include this trainer, instead of all trainers.
  /// Every trainer makes a replica with its own group, and takes as many steps. Digest and checkpoints are as with
  /// `synchronized = false`, which it cannot be combined with.
  std::optional<troupe::group> group = {};
  /// The number of slices that the network, a `nn::sequential`, is cut into, each on its own trainer: pairs of linear
  /// layers with only relu or gelu between them, the first by its outputs and the second by its inputs. Trainer r of R
  /// x T has slice r % T of replica r / T, and the replicas are reduced. A replica's trainers apply it to the same
  /// inputs in the same order: each pass waits for the other slices twice for each pair, and returns the same output on
  /// all. Needs the processor.
  std::uint32_t tensor_parallel = 1;
  /// The name of its passes in traces, and of its tensors in checkpoints: letters, digits, '_' and '-'. If empty or
  /// null, traces use the module's type, and checkpoints its number. Not a std::string, which gcc 12 would destroy
  /// twice in some coroutines.
  const char* name = "";

  bool has_name() const { return name != nullptr && *name != 0; }
};

/// The result of a module with state for a part of a sequence.
struct sequence_part {
  tensor output;
  tensor state;  ///< the state after the part; in no context: no gradient passes back into it
};

/// Belongs to the trainer that made it (`trainer::data_parallel`).
class data_parallel {
 public:
  explicit data_parallel(std::shared_ptr<runtime::replica> of) : replica_(std::move(of)) {}

  /// Applies the module to `input`. Throws `error` if the module does not accept it.
  tensor operator()(context& in, const tensor& input, source_location at = source_location::current()) const;
  /// The same for a module with state (`nn::module::state`), such as `nn::lstm`: begins with `state`, where an empty
  /// tensor means zeros, and returns the output and the next state. No gradient passes back into a state, so each part
  /// of a sequence is trained alone (truncated backpropagation through time). Throws `error` if the module has no
  /// state, if the shape is wrong, or if a context has computed the state.
  sequence_part operator()(context& in, const tensor& input, const tensor& state,
                           source_location at = source_location::current()) const;

  /// Returns this trainer's parameters, flat, in the module's order.
  std::vector<float> parameters() const;

  /// Returns copies of this trainer's parameters and buffers, by their PyTorch names; for a sliced network, this
  /// trainer's slice.
  named_tensors state_dict() const;
  /// Loads parameters and buffers from `state`; the optimizer's own state stays. All trainers load the same; a sliced
  /// network also accepts the whole network's tensors, of which each trainer uses its slice. A resumed run begins with
  /// its saved state: there, this changes nothing until the loop has reached its saved position. Throws an `error` that
  /// names every tensor that is missing, unknown or of another shape, and then changes nothing.
  void load_state_dict(const named_tensors& state) const;

  runtime::trained trained() const { return replica_; }

 private:
  std::shared_ptr<runtime::replica> replica_;
};

}  // namespace troupe
