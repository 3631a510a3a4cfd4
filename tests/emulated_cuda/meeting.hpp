// Where the ranks of an emulated NCCL communicator meet: shared memory of this host, named by the communicator's
// identity. A rank that dies is not noticed by the others.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::emulated_cuda {

class meeting {
 public:
  /// Joins as `rank`, with the card of this identity.
  meeting(std::string name, int rank, int ranks, const std::string& card);
  ~meeting();
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  /// Whether all ranks have joined; the name is free again then.
  bool all_are_here();

  /// Describes two ranks with the same card; empty without any. Requires that all ranks have joined.
  std::string find_duplicate() const;

  /// Returns the first step of this rank's next sum. Call once for each sum, in their order.
  std::uint64_t next_sum(std::size_t count);

  /// Sums `buffer` over all ranks in rank order, after the sums before `first_step`; waits for the other ranks. Once
  /// `is_over`, it ends early with a meaningless result.
  void sum(std::uint64_t first_step, float* buffer, std::size_t count, const std::function<bool()>& is_over);

 private:
  struct rank_part;

  template <class Done>
  bool wait_for(const std::function<bool()>& is_over, Done done) const;
  /// Whether every rank's counter has reached `step`.
  bool all_at(std::atomic<std::uint64_t> rank_part::*counter, std::uint64_t step) const;

  const std::string name_;
  const int rank_;
  const int ranks_;
  std::size_t bytes_ = 0;
  rank_part* parts_ = nullptr;
  std::uint64_t next_step_ = 0;
};

}  // namespace troupe::emulated_cuda
