// How an allreduce group sums on CUDA devices: the shares stay there, and `device_reduction` sums them (between
// devices, by NCCL).
//
// The groups of several processes send each other announcements, which are shares without numbers: a sum is launched
// when every rank has announced its share. So no device waits for a missing rank, and that rank can be named.
//
// A bucket passes through these states, in an order that all processes share:
//
//   announced by every rank        `sum`
//     -> ready                     the communicator is connected, and has accepted the bucket before this one
//     -> launched                  only the first of the ready ones; the communicator has accepted it
//     -> running                   the ranks have their answers, and the devices write the means
//     -> over                      the devices are done; only the timeout check asks for this
//
// A busy communicator is polled again after a millisecond: it neither blocks nor calls back.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/collective/allreduce_group.hpp"
#include "actors/collective/device_reduction.hpp"

namespace troupe::actors {

/// The timeout of an allreduce on devices unless another one is set.
constexpr std::chrono::seconds device_timeout{300};

/// Names the trainers of a process.
std::string trainers_of(const rank_layout& ranks, std::uint32_t process);

/// Belongs to one group's actor. Throws `kernels::device_error`.
class device_collective final : public collective {
 public:
  /// Opens the devices of this process's ranks. The group must outlive it.
  device_collective(allreduce_group_state& group, const compute_devices& devices);
  ~device_collective() override;

  share_exchange exchange_of(std::uint64_t /*count*/) const override { return share_exchange::announced; }
  bool can_read(const msg::tensor& grad) const override { return grad.bytes.device() != nullptr; }
  void join() override;
  caf::error check(const msg::bucket_share& share) const override;
  caf::error introduce(const msg::group_devices& theirs) override;
  bool sum(const bucket_id& id, group_bucket& all) override;
  void look_for_late() override;
  std::chrono::milliseconds look_interval() const override { return std::chrono::seconds(1); }
  const char* awaited() const override { return "connection of the devices"; }

 private:
  struct running {
    bucket_id id;
    std::chrono::steady_clock::time_point begin;
    std::vector<msg::tensor> means;
  };

  void connect();
  void launch_ready();
  void note_device_work(std::uint64_t step);
  void look_again();
  std::vector<device_reduction::share> local_shares(const group_bucket& all) const;
  void answer(const bucket_id& id, group_bucket& all, const std::vector<device_reduction::share>& shares);
  void forget_what_is_over();

  allreduce_group_state& group_;
  const rank_layout& ranks_;
  device_reduction reduction_;
  std::vector<msg::group_devices> introduced_;  ///< by process
  std::deque<bucket_id> ready_;                 ///< every rank's share is there; the first may be launched
  bool front_is_launched_ = false;
  std::deque<running> running_;
  std::chrono::steady_clock::time_point last_launch_;
  bool will_look_again_ = false;
};

}  // namespace troupe::actors
