// A trainer's part of a network that is partitioned over trainers: a stage of a pipeline, or a slice. The trainer has
// the rank replica x parts + part. Gradients are reduced over the trainers with the same part of all replicas.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "model/part_tensors.hpp"
#include "troupe/group.hpp"
#include "troupe/task.hpp"

namespace troupe::runtime {

class trainer_runtime;

/// Belongs to a trainer.
class network_part {
 public:
  /// Requires: the number of trainers is a multiple of the layout's parts. All trainers make the same parts in the same
  /// order among their subgroups.
  network_part(trainer_runtime& of, model::network_parts layout);

  std::uint32_t part() const { return along_.rank(); }
  std::uint32_t parts() const { return static_cast<std::uint32_t>(layout_.parts.size()); }
  std::uint32_t replica_number() const { return replica_number_; }
  /// The positions of this part's numbers in the whole network.
  const model::part_tensors& tensors() const { return layout_.parts[part()]; }
  /// The trainers of this replica, by part.
  const group& along() const { return along_; }
  /// The trainers with the same part, by replica.
  const group& across() const { return across_; }

  /// The whole network after training.
  struct whole {
    std::uint64_t digest = 0;       ///< of all parameters
    std::vector<float> parameters;  ///< at the first part only, like `buffers`
    std::vector<float> buffers;
  };
  /// Sends all parts' numbers to the first part, and their digest to all parts. `last`: the group in which this
  /// replica's trainers communicate after their functions have returned; `tag`: of this network.
  task<> collect(actors::trained_parameters& mine, group last, std::uint32_t tag);
  const whole& collected() const { return whole_; }

 private:
  model::network_parts layout_;
  std::uint32_t replica_number_;
  group along_;
  group across_;
  whole whole_;
};

}  // namespace troupe::runtime
