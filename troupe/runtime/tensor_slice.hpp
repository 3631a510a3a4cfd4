// A trainer's slice of a network under tensor parallelism (model/tensor_parallel.hpp). Its passes wait for the sums of
// all slices: a replica's slices run the same passes with the same input.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nn/sequential.hpp"
#include "nn/slice_sums.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/runtime/network_part.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Belongs to a trainer, which outlives it.
class tensor_slice final : public nn::slice_sums {
 public:
  /// Throws `error` if the trainers or the network cannot be sliced this way.
  tensor_slice(trainer_runtime& of, const nn::module& whole, const data_parallel_options& options);

  const nn::module& whole() const { return whole_; }
  /// This trainer's slice of the network.
  const std::shared_ptr<const nn::module>& module() const { return mine_; }
  network_part& part() { return part_; }
  const network_part& part() const { return part_; }
  /// Returns this slice's parameters.
  std::vector<float> cut(std::span<const float> whole) const { return model::part_of(whole, part_.tensors()); }
  /// The ranges of the slice whose numbers are not in an earlier slice.
  std::vector<nn::parameter_range> counted_once() const { return model::counted_once(part_.tensors(), part_.part()); }
  /// Whether a state has the whole network's tensors rather than a slice's.
  bool is_of_whole(const named_tensors& state) const;

  float* share(std::size_t rows, std::size_t cols) override;
  /// Throws `error` if another slice is in another pass, has ended or is late, or if no task is running.
  void sum(float* to) override;

 private:
  trainer_runtime& trainer_;
  nn::sequential whole_;
  std::shared_ptr<const nn::module> mine_;
  network_part part_;
  tensor share_;  ///< for the next sum
};

}  // namespace troupe::runtime
