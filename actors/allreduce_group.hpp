// The allreduce group of one process: collects each rank's share of a bucket and answers all of them with the mean over
// the ranks that had a batch, summed in rank order.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/header.hpp"
#include "protocol/messages.hpp"

namespace troupe {

class allreduce_group_state {
 public:
  using pointer = allreduce_actor::stateful_pointer<allreduce_group_state>;

  explicit allreduce_group_state(pointer self) : self_(self) {}

  std::string name = "allreduce";
  /// The newest step that a bucket has come of.
  std::uint64_t step = 0;

  void start(std::uint64_t run, std::uint32_t trainers);
  caf::result<reduced> handle(reduce& share);

 private:
  struct share_of_rank {
    bool arrived = false;
    reduce message;
    caf::typed_response_promise<reduced> promise;
  };

  struct collection {
    std::uint32_t arrived = 0;
    std::vector<share_of_rank> ranks;
  };

  caf::error check(const reduce& share, const collection& so_far) const;
  void finish(const collection& all);

  pointer self_;
  header_source headers_{0, 0};
  std::uint64_t run_ = 0;
  std::uint32_t trainers_ = 0;
  std::map<std::pair<std::uint64_t, std::uint32_t>, collection> open_;  // by step and bucket
  std::vector<collection> spare_;                                       // memory to be used again
  std::vector<const float*> inputs_;
};

/// The behavior of the group of `trainers` ranks in run `run`; spawn with this function.
allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                               std::uint32_t trainers);

}  // namespace troupe
