// What a parameter server holds: modules made by specification, behind one interface, and the registry of their types.

#pragma once

#include <caf/expected.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe {

/// (One shard of) a module that lives on a parameter server. Called by that server only.
/// Errors carry one line of context, without the server's name.
class remote_module {
 public:
  virtual ~remote_module() = default;

  virtual caf::expected<tensor> lookup(const bag_lookup& wanted) const = 0;

  /// Whether `grad` can be a gradient of this module; called as soon as it arrives.
  virtual caf::error check(const bag_gradient& grad) const = 0;

  /// One optimizer step with all gradients of a context, in rank order. `contributors` trainers had a batch.
  virtual caf::error step(std::uint64_t step, std::span<const bag_gradient* const> grads,
                          std::uint32_t contributors) = 0;

  virtual std::vector<parameter_info> parameters() const = 0;
  virtual std::vector<std::pair<std::string, tensor>> state_dict() = 0;
  virtual caf::error load_state_dict(const std::vector<std::pair<std::string, tensor>>& entries) = 0;

  /// The digest of each local row's bits; an error if a weight is NaN or Inf.
  virtual caf::expected<tensor> row_digests() const = 0;
};

/// Makes (one shard of) the module that `order` specifies. Types: `EmbeddingBag` with the arguments num_embeddings,
/// embedding_dim, mode (sum, mean, max), table, seed, optimizer (as in `--sparse-optimizer`), lr, reduce (sum, mean);
/// they may have dtype (as in `--row-dtype`, f32) and lr_schedule (as in `--lr-schedule`, constant).
caf::expected<std::unique_ptr<remote_module>> make_remote_module(const instantiate& order);

}  // namespace troupe
