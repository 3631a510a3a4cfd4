// How a trainer's shares of buckets are summed by its allreduce group.

#pragma once

#include <cstdint>
#include <utility>

#include "actors/common/failure.hpp"
#include "actors/trainer/step_votes.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class allreduce_client {
 public:
  /// `number`: the group's actor number; `rank`: the trainer's rank in the group. Requires: `actor` outlives this
  /// object.
  allreduce_client(const trainer_context& actor, msg::allreduce_actor group, std::uint32_t number, std::uint32_t rank)
      : actor_(actor), group_(std::move(group)), number_(number), rank_(rank) {}

  std::uint32_t rank() const { return rank_; }

  /// Sends this rank's share of a bucket in step `step`, with its votes, and calls `on_mean` with the group's answer.
  /// Calls `on_error` if that fails or the answer does not fit the share. `weight`: the share's, see
  /// `trained_parameters`.
  template <class OnMean, class OnError>
  void reduce(std::uint64_t step, std::uint32_t bucket, std::uint32_t weight, msg::tensor share,
              const step_votes::vote& own, OnMean on_mean, OnError on_error) const {
    const std::uint64_t count = share.rows;
    msg::reduce message{actor_.trace.next(step), rank_, bucket, weight, own.stop, std::move(share), own.save};
    actor_.ask<msg::reduced>(
        group_, {.number = number_}, std::move(message),
        [on_mean = std::move(on_mean), on_error, count](const msg::reduced& mean) mutable {
          if (mean.grad.rows == count && mean.grad.consistent()) return on_mean(mean);
          on_error(
              make_failure(errc::shape_mismatch, "a mean of {} numbers for a bucket of {}", mean.grad.rows, count));
        },
        on_error);
  }

 private:
  const trainer_context& actor_;
  const msg::allreduce_actor group_;
  const std::uint32_t number_;
  const std::uint32_t rank_;
};

}  // namespace troupe::actors
