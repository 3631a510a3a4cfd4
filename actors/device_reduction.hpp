// The arithmetic of an allreduce group whose trainers compute on CUDA devices: the shares of one device's ranks are
// summed up there, in rank order, and the devices' sums by NCCL, on streams beside those that compute.
//
// With one device that is all the same order of ranks that the processor has. With several it is NCCL's order, which is
// a function of the devices and how they are connected.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "kernels/communicator.hpp"
#include "kernels/device_array.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Belongs to one actor. Throws `kernels::device_error`.
class device_reduction {
 public:
  /// For the ranks of this process.
  device_reduction(const compute_devices& devices, std::span<const std::uint32_t> ranks);
  /// The cards that this process's ranks are on, each once.
  std::vector<std::string> uuids() const;

  static kernels::communicator_id make_id();

  /// Begins to connect the devices of this process, as numbers `first`, ... of `all`. With a single device there is
  /// nothing to connect.
  void connect(const kernels::communicator_id& id, std::size_t first, std::size_t all);

  /// Whether `launch` or `means` may be called: `busy` also before `connect`.
  kernels::communicator::state poll();
  std::string error() const;

  /// Aborts what is still under way, so that the streams that wait for it pass, and marks all means that are in use:
  /// they may be anything. Does not wait, as the abort itself may take long. The reduction is of no use afterwards.
  void abandon();

  /// One local rank's part of a bucket.
  struct share {
    std::uint32_t rank = 0;
    const msg::tensor* grad = nullptr;
    bool counts = true;  ///< it had a batch
  };

  /// Puts the sum of a bucket's shares over all ranks into the streams.
  void launch(std::uint32_t bucket, std::span<const share> shares, std::uint64_t count);

  /// And that times `scale`, when `poll` says `ready` again: for each share, on its rank's device. It stays until the
  /// next launch of the same bucket, which waits for what the ranks do before they offer their shares.
  std::vector<msg::tensor> means(std::uint32_t bucket, std::span<const share> shares, float scale);

 private:
  struct lane {
    kernels::device* where;
    std::map<std::uint32_t, kernels::device_array<float>> sums;  // by bucket
    std::unique_ptr<kernels::stream> on;                         // goes first, when it has passed
  };

  std::size_t lane_of(std::uint32_t rank) const;

  compute_devices devices_;
  std::vector<lane> lanes_;
  std::unique_ptr<kernels::communicator> communicator_;
  std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool connected_ = false;
};

}  // namespace troupe::actors
