// Ends an optimizer step whose gradient is applied as a whole: all trainers compute the norm of everything that is
// trained, wherever it is, and clip by it, or skip the optimizer step.
//
//   replica equal on all trainers    every trainer has the mean, and its norm
//   other replica (stage, slice)     one of the trainers that share it adds its norm, which all exchange
//   tables and modules on servers    each server answers with the norm of what it has

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/exact_sum.hpp"
#include "troupe/future.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/replica_set.hpp"
#include "troupe/runtime/step_reductions.hpp"
#include "troupe/runtime/table_clients.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class whole_gradient {
 public:
  /// Requires: the arguments outlive this object.
  whole_gradient(table_clients& tables, step_reductions& reductions, const replica_set& replicas,
                 const program_assignment& assigned)
      : tables_(tables), reductions_(reductions), replicas_(replicas), assigned_(assigned) {}

  /// Applies the means of `members` in step `step`, clipped, or skips them; then calls `then`. Fails `done` if the
  /// gradient is not finite and that ends the run, or if another actor fails. Requires: all means and the servers'
  /// norms are there.
  void apply(const std::vector<trained>& members, std::uint64_t step, std::shared_ptr<promise<>> done,
             std::function<void()> then);

  /// The number of skipped optimizer steps.
  std::uint64_t skipped() const { return skipped_; }
  /// The number since the last call.
  std::uint64_t skipped_since_save() { return skipped_ - std::exchange(saved_, skipped_); }
  /// Begins with this number.
  void resume(std::uint64_t skipped) { skipped_ = saved_ = skipped; }

 private:
  void agree(bool has_own, const std::shared_ptr<promise<>>& done, std::function<void()> then);
  void apply_clipped(const std::vector<trained>& members, double squared_norm, const std::shared_ptr<promise<>>& done,
                     std::function<void()> then);

  table_clients& tables_;
  step_reductions& reductions_;
  const replica_set& replicas_;
  const program_assignment& assigned_;
  std::optional<bool> exchanges_;  ///< whether trainers must exchange norms that not every one knows; null until they
                                   ///< have agreed
  std::uint64_t skipped_ = 0;
  std::uint64_t saved_ = 0;  ///< how many of these skipped steps are in a checkpoint
};

}  // namespace troupe::runtime
