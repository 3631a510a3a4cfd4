// What a parameter server holds: modules made by specification, behind one interface, and the registry of their types.

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

/// Whose gradients make up a context.
struct contributors {
  std::uint32_t trainers = 0;  ///< trainers that had a batch
  std::uint64_t batches = 0;   ///< batches of all of them
};

/// (One shard of) a module that lives on a parameter server. Called by that server only.
/// Errors carry one line of context, without the server's name.
class remote_module {
 public:
  virtual ~remote_module() = default;

  /// A lookup will come, when its step's turn has come: what can be done for it is done now. An error if it is wrong.
  virtual caf::error expect(const msg::bag_lookup& wanted) = 0;

  /// A lookup that has begun: waits for it, and gives its rows. To be called once at most.
  using lookup_future = std::function<msg::tensor()>;

  /// Begins to look up the rows wanted, as `type`; they go where there is room for them, if that is on their device.
  /// Several may have begun before the first is waited for, so that rows of one table come from a device while the next
  /// one's are gathered.
  virtual caf::expected<lookup_future> lookup(const msg::bag_lookup& wanted, kernels::row_dtype type) = 0;

  /// Whether `grad` can be a gradient of this module; called as soon as it arrives.
  virtual caf::error check(const msg::bag_gradient& grad) const = 0;

  /// Takes in the gradients of a context, in rank order. They stay where they are until `finish` or the next `collect`.
  /// An error if they are more than an optimizer step can have.
  virtual caf::error collect(std::span<const msg::bag_gradient* const> grads, contributors from) = 0;

  /// The squared norm of the gradient that has been collected, as `apply` would see it.
  virtual model::exact_sum squared_norm() = 0;

  /// Begins optimizer step number `update` (1 for the first) with what has been collected, times `factor`.
  virtual void apply(std::uint64_t update, float factor) = 0;

  /// Waits for it. An error if a gradient was NaN or Inf.
  virtual caf::error finish() = 0;

  virtual std::vector<msg::parameter_info> parameters() const = 0;
  virtual std::vector<std::pair<std::string, msg::tensor>> state_dict() = 0;
  virtual caf::error load_state_dict(const std::vector<std::pair<std::string, msg::tensor>>& entries) = 0;

  /// Writes weights and optimizer state to a file of its own in `folder`.
  virtual caf::expected<model::saved_file> save(const std::string& folder) = 0;

  /// Reads them back from a checkpoint, however it was sharded.
  virtual caf::error restore(const model::checkpoint& from) = 0;

  /// The digests of the bits of `count` local rows from row `first` on; an error if the shard has no such rows, they
  /// are more than `row_digests_max`, or a weight is NaN or Inf.
  virtual caf::expected<msg::tensor> row_digests(std::uint64_t first, std::uint64_t count) const = 0;
};

/// Makes (one shard of) the module that `order` specifies, in the memory of `where`. Types: `EmbeddingBag` with the
/// arguments num_embeddings, embedding_dim, mode (sum, mean, max), table, seed, optimizer (as in `--sparse-optimizer`),
/// lr, reduce (sum, mean); they may have dtype (as in `--row-dtype`, f32) and lr_schedule (as in `--lr-schedule`,
/// constant).
caf::expected<std::unique_ptr<remote_module>> make_remote_module(const msg::instantiate& order, kernels::device& where);

/// The same for `EmbeddingBag`, whatever the type that `order` names.
caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(const msg::instantiate& order,
                                                                        kernels::device& where);

}  // namespace troupe::actors
