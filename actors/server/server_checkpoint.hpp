// Tracks which modules of a parameter server keep their state for a checkpoint, and which states are being written. The
// state after an optimizer step is kept when the next step is about to be applied (a trainer's first gradient of that
// step says so) or when the order to write comes, whichever is first.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "model/kept_rows.hpp"
#include "model/memory.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the server's actor.
class server_checkpoint {
 public:
  /// Limits the bytes that are kept; `msg::any_memory`: a fourth of the machine's free memory.
  void may_keep(std::uint64_t bytes) { bytes_ = bytes; }

  /// Begins a checkpoint of the state after optimizer step `update`. `on_more_memory`: called when there is more memory
  /// for copies of what optimizer steps change; thread: any.
  void begin(std::uint64_t update, std::function<void()> on_more_memory) {
    if (update_ == update) return;
    update_ = update;
    kept_.clear();
    begun_.clear();
    allowance_ = std::make_shared<model::memory_allowance>(
        bytes_ == msg::any_memory ? model::available_memory() / 4 : bytes_, std::move(on_more_memory));
  }
  /// The optimizer step of the last checkpoint.
  const std::optional<std::uint64_t>& update() const { return update_; }
  /// Counts the memory of kept state; null: there was no checkpoint.
  const std::shared_ptr<model::memory_allowance>& allowance() const { return allowance_; }

  /// Returns whether a module keeps its state after optimizer step `update`.
  bool is_kept(std::uint64_t module, std::uint64_t update) const { return update_ == update && kept_.contains(module); }
  /// Returns whether a module must keep its state from now on.
  bool keep(std::uint64_t module) { return !begun_.contains(module) && kept_.insert(module).second; }
  /// A module's state is written from now on, or need not be written.
  void begin_module(std::uint64_t module) {
    kept_.erase(module);
    begun_.insert(module);
  }
  /// Returns whether a module's state after optimizer step `update` is being written. An order to write it again may
  /// follow: the next checkpoint has the same state if the server has taken no optimizer step since.
  bool is_writing(std::uint64_t module, std::uint64_t update) const {
    return update_ == update && writing_.contains(module);
  }
  void forget(std::uint64_t module) { kept_.erase(module); }

  void writing_begins(std::uint64_t module) { writing_.insert(module); }
  void writing_ends(std::uint64_t module) { writing_.erase(writing_.find(module)); }

 private:
  std::uint64_t bytes_ = msg::any_memory;
  std::optional<std::uint64_t> update_;
  std::shared_ptr<model::memory_allowance> allowance_;  ///< of the last checkpoint
  std::set<std::uint64_t> kept_;                        ///< modules that keep their state until it is written
  std::set<std::uint64_t> begun_;                       ///< modules whose state has begun to be written
  std::multiset<std::uint64_t> writing_;                ///< modules being written, once for each checkpoint
};

}  // namespace troupe::actors
