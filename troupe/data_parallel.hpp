// A module that every trainer has a replica of. All replicas begin with the same parameters, and every optimizer step
// applies the mean of the trainers' gradients, summed in the order of the ranks, so all keep the same bits. Gradients
// leave in buckets while earlier layers are still computed.

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

/// How a replica is reduced, and called.
struct data_parallel_options {
  /// The size of a bucket, after the first one, which is smaller. Parts of a module are not cut.
  double bucket_mib = 25;
  /// Optimizer steps apply the mean of all trainers' gradients. Without that, each trainer's steps apply its own
  /// gradient: replicas begin with the same parameters and then differ, unless the trainer function makes them equal,
  /// by collectives for example (group.hpp). The run's digest leaves them out, and checkpoints hold every trainer's.
  bool synchronized = true;
  /// Optimizer steps apply the mean of the gradients of this group's members, this trainer among them, instead of all
  /// trainers'. Every trainer makes such a replica, with the group that it is in, and takes as many steps. Digest and
  /// checkpoints are as without `synchronized`, which it does not go with.
  std::optional<troupe::group> group = {};
  /// Into how many slices the network, a `nn::sequential`, is cut, each on a trainer of its own: pairs of linear layers
  /// with only relu or gelu between them, the first by its outputs and the second by its inputs. Trainer r of R x T has
  /// slice r % T of replica r / T, and the replicas are reduced. The trainers of a replica apply it to the same inputs,
  /// in the same order: each pass waits for the other slices, twice a pair, and returns the same output on all. On the
  /// processor.
  std::uint32_t tensor_parallel = 1;
  /// What traces call its passes, and checkpoints its tensors: letters, digits, '_' and '-'. Otherwise traces have the
  /// module's type, and checkpoints its number; so they do if it is null. No std::string, which gcc 12 would destroy
  /// twice in some coroutines.
  const char* name = "";

  bool has_name() const { return name != nullptr && *name != 0; }
};

/// What a module that carries a state makes of a part of a sequence.
struct sequence_part {
  tensor output;
  tensor state;  ///< after the part; of no context: no gradient goes back into it
};

/// Belongs to the trainer that made it (`trainer::data_parallel`).
class data_parallel {
 public:
  explicit data_parallel(std::shared_ptr<runtime::replica> of) : replica_(std::move(of)) {}

  /// Applies the module to `input`. Throws `error` if the module cannot take it.
  tensor operator()(context& in, const tensor& input, source_location at = source_location::current()) const;
  /// The same of a module that carries a state (`nn::module::state`), such as `nn::lstm`: begins with `state`, which is
  /// zeros if it is empty, as `tensor()` is, and returns the one after the input with the output. No gradient goes
  /// back into a state, so that each part of a sequence is trained alone (truncated backpropagation through time).
  /// Throws `error` if the module carries none, if it has another shape, or if a context has computed it.
  sequence_part operator()(context& in, const tensor& input, const tensor& state,
                           source_location at = source_location::current()) const;

  /// Returns this trainer's parameters, flat, in the module's order.
  std::vector<float> parameters() const;

  /// Returns copies of this trainer's parameters and buffers, by the names that PyTorch gives them; of a network in
  /// slices, this trainer's slice.
  named_tensors state_dict() const;
  /// Takes parameters and buffers from `state`; the optimizer's own state stays. All trainers load the same; a network
  /// in slices may also take the whole network's tensors, of which each trainer takes its slice. A resumed
  /// run begins with what it has saved: there, this changes nothing until the loop has come to its saved place. Throws
  /// an `error` that names every tensor which is missing, is not the module's or has another shape; then nothing
  /// changes.
  void load_state_dict(const named_tensors& state) const;

  runtime::trained trained() const { return replica_; }

 private:
  std::shared_ptr<runtime::replica> replica_;
};

}  // namespace troupe
