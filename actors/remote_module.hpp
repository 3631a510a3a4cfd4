// The modules of a parameter server, made from specifications behind one interface, and the registry of their types.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "model/checkpoint/tensors.hpp"
#include "model/exact_sum.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The trainers and batches whose gradients make up a context.
struct contributors {
  std::uint32_t trainers = 0;  ///< trainers that had a batch
  std::uint64_t batches = 0;   ///< batches of all of them
};

/// A module on a parameter server, or one shard of it. Belongs to that server. Errors have one line of context, without
/// the server's name.
class remote_module {
 public:
  virtual ~remote_module() = default;

  /// Chooses the optimizer (as in `--sparse-optimizer`) and its learning rate, with the state that it begins with.
  /// Returns an error if it is invalid, or not the one that was chosen before.
  virtual caf::error set_optimizer(const std::string& optimizer, double lr) = 0;

  /// Prepares a lookup that is parked until its step. Returns an error if it is invalid.
  virtual caf::error expect(const msg::bag_lookup& wanted) = 0;

  /// Waits for a lookup that has begun, and returns its rows. Call at most once.
  using lookup_future = std::function<msg::tensor()>;

  /// Begins to look up rows, as `type`. They go to the columns that the message offers, if those are on the module's
  /// device. Several lookups may begin before the first is awaited, so that rows of one table are copied from a device
  /// while the next table's are gathered.
  virtual caf::expected<lookup_future> lookup(const msg::bag_lookup& wanted, kernels::row_dtype type) = 0;

  /// Returns an error if `grad` is no gradient of this module. Called when it arrives.
  virtual caf::error check(const msg::bag_gradient& grad) const = 0;

  /// Collects the gradients of a context, in rank order. Requires: they stay in place until `finish` or the next
  /// `collect`. Returns an error if they are more than an optimizer step can have.
  virtual caf::error collect(std::span<const msg::bag_gradient* const> grads, contributors from) = 0;

  /// Returns the squared norm of the collected gradient, scaled as in `apply`.
  virtual model::exact_sum squared_norm() = 0;

  /// Begins optimizer step `update` (from 1) with the collected gradient times `factor`.
  virtual void apply(std::uint64_t update, float factor) = 0;

  /// Waits for that step. Returns an error if a gradient was NaN or Inf.
  virtual caf::error finish() = 0;

  virtual std::vector<msg::parameter_info> parameters() const = 0;
  virtual std::vector<std::pair<std::string, msg::tensor>> state_dict() = 0;
  virtual caf::error load_state_dict(const std::vector<std::pair<std::string, msg::tensor>>& entries) = 0;

  /// What `save` has written: the file, and the tensors in it.
  struct saved {
    model::saved_file file;
    std::vector<msg::parameter_info> parts;
  };
  /// Writes weights and optimizer state to a new file in `folder`.
  virtual caf::expected<saved> save(const std::string& folder) = 0;

  /// Reads weights and optimizer state from a checkpoint, whatever its number of shards. If trainers choose the
  /// optimizer later, `set_optimizer` reads its state.
  virtual caf::error restore(const model::checkpoint& from) = 0;

  /// Returns the digests [count, 1] of the bits of `count` local rows from row `first` on. Returns an error if the
  /// shard lacks such rows, if they are more than `row_digests_max`, or if a weight is NaN or Inf.
  virtual caf::expected<msg::tensor> row_digests(std::uint64_t first, std::uint64_t count) const = 0;
};

/// Makes the module, or the shard of it, that `order` specifies, in the memory of `where`. Types: `EmbeddingBag` with
/// the arguments num_embeddings, embedding_dim, mode (sum, mean, max), table, seed, optimizer (as in
/// `--sparse-optimizer`), lr, reduce (sum, mean); they may have dtype (as in `--row-dtype`, f32) and lr_schedule (as in
/// `--lr-schedule`, constant).
caf::expected<std::unique_ptr<remote_module>> make_remote_module(const msg::instantiate& order, kernels::device& where);

/// The same for the type `EmbeddingBag`.
caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(const msg::instantiate& order,
                                                                        kernels::device& where);

}  // namespace troupe::actors
