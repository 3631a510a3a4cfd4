// What trainers report of one epoch, gathered from all ranks and combined in rank order.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/run.hpp"
#include "protocol/messages.hpp"

namespace troupe {

class epoch_gathering {
 public:
  epoch_gathering(std::uint32_t trainers, loss_kind loss) : loss_(loss), reports_(trainers), evaluations_(trainers) {}

  void add(epoch_report&& report);
  void add(evaluation&& share);

  /// True if every rank has reported, and evaluated where it said it would.
  bool complete() const;

  /// Loss: mean over the samples. Seconds: the slowest rank's. Metrics: over all ranks' test rows.
  epoch_summary summary() const;

 private:
  loss_kind loss_;
  std::vector<std::optional<epoch_report>> reports_;
  std::vector<std::optional<evaluation>> evaluations_;
};

}  // namespace troupe
