// Where the ranks of an emulated NCCL communicator meet: shared memory of this host, by the name that the
// communicator's identity holds. A rank that dies is not noticed by the others.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::emulated_cuda {

class meeting {
 public:
  /// Joins as `rank`, with a card of this identity.
  meeting(std::string name, int rank, int ranks, const std::string& card);
  ~meeting();
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  /// Once they are, the name is free again.
  bool all_are_here();

  /// Two ranks with one card, in words; empty if there are none. For when all are here.
  std::string find_duplicate() const;

  /// The place in the order of this rank's sums, to be asked for once for each and in their order.
  std::uint64_t next_sum(std::size_t count);

  /// Sums `buffer` over all ranks in rank order, when the sums before `first_step` are over; waits for the other ranks,
  /// or ends early and with nothing of use once `is_over`.
  void sum(std::uint64_t first_step, float* buffer, std::size_t count, const std::function<bool()>& is_over);

 private:
  struct rank_part;

  template <class Done>
  bool wait_for(const std::function<bool()>& is_over, Done done) const;
  /// Whether every rank's counter has come to `step`.
  bool all_at(std::atomic<std::uint64_t> rank_part::*counter, std::uint64_t step) const;

  const std::string name_;
  const int rank_;
  const int ranks_;
  std::size_t bytes_ = 0;
  rank_part* parts_ = nullptr;
  std::uint64_t next_step_ = 0;
};

}  // namespace troupe::emulated_cuda
