// The arithmetic of an allreduce group whose trainers compute on CUDA devices: each device sums its ranks' shares in
// rank order, and NCCL sums the devices' sums, on streams beside the compute streams.
//
// With one device, the order of ranks is the same as on the processor. With several it is NCCL's order, which is a
// function of the devices and how they are connected.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/common/compute_devices.hpp"
#include "kernels/backend.hpp"
#include "kernels/device_array.hpp"
#include "kernels/stream_timer.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Belongs to one actor. Throws `kernels::device_error`.
class device_reduction {
 public:
  /// `ranks`: the ranks of this process.
  device_reduction(const compute_devices& devices, std::span<const std::uint32_t> ranks);
  /// The UUIDs of the devices of this process's ranks, each once.
  std::vector<std::string> uuids() const;

  /// The numbers of these devices in this process.
  std::vector<int> numbers() const;

  static kernels::communicator_id make_id();

  /// Begins to connect the devices of this process, as numbers `first`, ... of `all`. With a single device there is
  /// nothing to connect.
  void connect(const kernels::communicator_id& id, std::size_t first, std::size_t all);

  /// Returns whether `launch` or `means` may be called; also `busy` before `connect`.
  kernels::communicator::state poll();
  /// Requires: `poll` returns `failed`.
  kernels::device_error error() const { return kernels::device_error(communicator_->error(), communicator_->why()); }

  /// Aborts all active work, so that the streams waiting for it continue, and marks all means in use as invalid. Does
  /// not wait, since the abort itself may take long. The reduction cannot be used afterwards.
  void abandon();

  /// One local rank's part of a bucket.
  struct share {
    std::uint32_t rank = 0;
    const msg::tensor* grad = nullptr;
    bool counts = true;  ///< whether the rank had a batch
  };

  /// From now on times the devices' work: one span named `what` for each sum, from its launch to its means, including
  /// the exchange between devices. Waits for the devices.
  void time_work(std::uint16_t what);
  /// Calls `take` with the timer of each device's stream. Sums launched from now on belong to `step`.
  void for_each_timer(std::uint64_t step, const std::function<void(kernels::stream_timer&)>& take);

  /// Enqueues the sum of a bucket's shares over all ranks on the streams.
  void launch(std::uint32_t bucket, std::span<const share> shares, std::uint64_t count);

  /// Requires: `poll` returns `ready` again. Returns the sum times `scale` for each share, on its rank's device. The
  /// results stay until the same bucket is launched again; that launch waits for all work that its ranks have enqueued
  /// before they offer their shares.
  std::vector<msg::tensor> means(std::uint32_t bucket, std::span<const share> shares, float scale);

 private:
  struct lane {
    kernels::device* where;
    std::map<std::uint32_t, kernels::device_array<float>> sums;  // by bucket
    kernels::stream_timer timer;
    std::unique_ptr<kernels::stream> on;  // declared last: destroyed first, once its work is done
  };

  std::size_t lane_of(std::uint32_t rank) const;

  compute_devices devices_;
  std::vector<lane> lanes_;
  std::unique_ptr<kernels::communicator> communicator_;
  std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  bool connected_ = false;
  std::uint16_t span_name_ = 0;
};

}  // namespace troupe::actors
