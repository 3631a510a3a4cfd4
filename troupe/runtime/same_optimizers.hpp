// Checks that all trainers train their shared replicas alike: each sends the others its optimizer when it first takes a
// step with it, and compares theirs with its own for that step.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "troupe/source_location.hpp"
#include "troupe/trained.hpp"

namespace troupe::runtime {

class communicator;

/// Describes what a trainer's optimizer does with the replicas that all trainers share.
struct optimizer_text {
  std::vector<std::string> members;  ///< "linear replica0 by sgd:momentum=0.9 with lr 0.1"
  bool is_reported = false;          ///< whether it was sent to the other trainers
};

/// Adds the shared replicas among `members`. `how`: the optimizer and its settings.
void add_text(optimizer_text& to, const std::vector<trained>& members, const std::string& how);

/// Belongs to a trainer.
class same_optimizers {
 public:
  /// Requires: `with` outlives this object.
  explicit same_optimizers(communicator& with) : communicator_(with) {}

  /// Notes that the trainer takes an optimizer step with `one`. Throws `error` if another trainer has reported another
  /// optimizer for this step.
  void use(optimizer_text& one, std::uint64_t step) {
    if (!one.is_reported) share(one, step);
    step_ = step;
    if (!theirs_.empty()) compare();
  }
  /// Handles another trainer's report. Throws the same `error`.
  void take(const msg::peer_optimizer& word);

 private:
  struct first_use {
    std::uint64_t step = 0;
    source_location at;
  };

  void share(optimizer_text& one, std::uint64_t step);
  void compare();

  communicator& communicator_;
  std::map<std::string, first_use> mine_;    ///< by their text
  std::string last_;                         ///< the text that was sent last
  std::vector<msg::peer_optimizer> theirs_;  ///< of future steps
  std::uint64_t step_ = 0;                   ///< the last step
};

}  // namespace troupe::runtime
