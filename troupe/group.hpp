// Collectives: what the trainers of a group compute together, and what they send each other.
//
// Every member calls the same collectives in the same order, with tensors of the same shape and type; several may be
// under way at once. A future is ready when all members have called and this one has its result, so every collective
// is a barrier too. What differs is an error for every member that names two trainers and what each has called. So is a
// member whose function has returned, and a deadline that passes.
//
// Reductions are in the order of the ranks, so they have the same bits wherever the trainers are. Results are this
// trainer's own. Until its future is ready, nobody may change a tensor that was given. Gradients pass through the calls
// that are given a context, and no others.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "troupe/future.hpp"
#include "troupe/source_location.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

class context;

namespace runtime {
struct group_calls;
}

/// How numbers of several ranks become one. The mean is the sum times 1 / ranks. The minimum and the maximum are NaN if
/// one of the numbers is; of zeros of either sign, they are that of the lowest rank. Sums of int64 wrap around.
enum class reduce_op : std::uint8_t { sum, mean, min, max };

/// Trainers that call collectives together. Belongs to the trainer function; copies are the same group. Functions throw
/// `error` on arguments that are wrong whatever the other members call. `at`: the caller's place, for errors.
class group {
 public:
  using place = source_location;

  group(std::shared_ptr<runtime::group_calls> of, std::chrono::milliseconds deadline)
      : calls_(std::move(of)), deadline_(deadline) {}

  /// This trainer's rank in the group.
  std::uint32_t rank() const;
  std::uint32_t size() const;

  /// The group of some members, by their ranks here, which have new ranks in the order of this list. All of them call
  /// this, and nobody else; each call makes another group.
  group subgroup(const std::vector<std::uint32_t>& ranks) const;
  /// The same group; calls by this object fail after that long. At first it is `--request-timeout` between processes
  /// and `default_deadline` within one.
  group with_deadline(std::chrono::milliseconds deadline) const { return {calls_, deadline}; }

  /// The reduction of all members' tensors, element by element. There is no mean of int64.
  future<tensor> all_reduce(const tensor& x, reduce_op how = reduce_op::sum, place at = place::current()) const;
  /// The sum of all members' tensors, in a context: its gradient, which all members have alike as all compute the same
  /// loss from it, goes on unchanged to what each has given. Takes float32 or float64, at least 1 number.
  future<tensor> all_reduce(context& in, const tensor& x, place at = place::current()) const;
  /// `x` itself, which all members have alike, and of which each computes its part of what they sum: the gradients that
  /// come back to them are summed over the group, and the sum goes on. So in `backward` all members wait for each other
  /// here, as in a collective. If no context has computed `x`, there is no gradient to exchange.
  tensor all_reduce_gradient(context& in, const tensor& x, place at = place::current()) const;
  /// The tensors of all members, by rank.
  future<std::vector<tensor>> all_gather(const tensor& x, place at = place::current()) const;
  /// This rank's part of the reduction, whose first dimension is cut into as many equal parts as there are members.
  future<tensor> reduce_scatter(const tensor& x, reduce_op how = reduce_op::sum, place at = place::current()) const;
  /// The root's tensor; what the others give does not count.
  future<tensor> broadcast(const tensor& x, std::uint32_t root, place at = place::current()) const;
  /// At the root, the tensors of all members, by rank; for the others, none.
  future<std::vector<tensor>> gather(const tensor& x, std::uint32_t root, place at = place::current()) const;
  /// The root's tensor of this rank. The root gives one for each rank; what the others give does not count.
  future<tensor> scatter(std::span<const tensor> parts, std::uint32_t root, place at = place::current()) const;
  future<> barrier(place at = place::current()) const;

  /// Sends a copy of `x` to another member. It must receive it before it returns.
  void send(const tensor& x, std::uint32_t to, std::uint32_t tag = 0, place at = place::current()) const;
  /// The next tensor that a member has sent with this tag, in the order of its `send`.
  future<tensor> recv(std::uint32_t from, std::uint32_t tag = 0, place at = place::current()) const;

  /// For the library.
  runtime::group_calls& calls() const { return *calls_; }
  std::chrono::milliseconds deadline() const { return deadline_; }

 private:
  std::shared_ptr<runtime::group_calls> calls_;
  std::chrono::milliseconds deadline_;
};

}  // namespace troupe
