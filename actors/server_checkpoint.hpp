// Knows which modules of a parameter server keep their state for a checkpoint, and which states are being written.
// The state after an optimizer step is kept when the next one is about to be applied (a trainer's first gradient of
// that one says so) or when the order to write comes, whichever is first.

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
  /// At most so many bytes are kept; `msg::any_memory`: a fourth of what the machine has free.
  void may_keep(std::uint64_t bytes) { bytes_ = bytes; }

  /// A checkpoint is taken of the state after optimizer step `update`. `on_more_memory`: is called when there is more
  /// memory for what optimizer steps change; thread: any.
  void begin(std::uint64_t update, std::function<void()> on_more_memory) {
    if (update_ == update) return;
    update_ = update;
    kept_.clear();
    begun_.clear();
    allowance_ = std::make_shared<model::memory_allowance>(
        bytes_ == msg::any_memory ? model::available_memory() / 4 : bytes_, std::move(on_more_memory));
  }
  /// The optimizer step of the last one.
  const std::optional<std::uint64_t>& update() const { return update_; }
  /// What the modules keep is counted here; null: there was no checkpoint.
  const std::shared_ptr<model::memory_allowance>& allowance() const { return allowance_; }

  /// Whether a module keeps its state after optimizer step `update`.
  bool is_kept(std::uint64_t module, std::uint64_t update) const { return update_ == update && kept_.contains(module); }
  /// Returns whether a module has to keep its state from now on.
  bool keep(std::uint64_t module) { return !begun_.contains(module) && kept_.insert(module).second; }
  /// A module's state is written from now on, or need not be.
  void begin_module(std::uint64_t module) {
    kept_.erase(module);
    begun_.insert(module);
  }
  /// Returns whether a module's state after optimizer step `update` is being written. An order to write it again may
  /// come after that: the next checkpoint has the same state of a server that has taken no optimizer step since.
  bool is_writing(std::uint64_t module, std::uint64_t update) const {
    return update_ == update && writing_.contains(module);
  }
  void forget(std::uint64_t module) { kept_.erase(module); }

  void writing_begins(std::uint64_t module) { writing_.insert(module); }
  void writing_ends(std::uint64_t module) { writing_.erase(writing_.find(module)); }

 private:
  std::uint64_t bytes_ = msg::any_memory;
  std::optional<std::uint64_t> update_;
  std::shared_ptr<model::memory_allowance> allowance_;  ///< of the last one
  std::set<std::uint64_t> kept_;                        ///< modules that keep their state until it is to be written
  std::set<std::uint64_t> begun_;                       ///< those of which it has begun to be written
  std::multiset<std::uint64_t> writing_;                ///< those that are being written, perhaps for two checkpoints
};

}  // namespace troupe::actors
