// Collectives, which the trainers of a group compute together, and tensors that they send each other.
//
// Every member calls the same collectives in the same order, with tensors of the same shape and type; several may be
// pending at once. A future is ready when all members have called and this one has its result, so every collective is
// also a barrier. A call that differs gives every member an error that names two trainers and their calls. A member
// whose function has returned and a missed deadline are also errors.
//
// Reductions are in rank order, so their bits do not depend on where the trainers are. Results belong to this trainer.
// A tensor that was passed must not change until its future is ready. Gradients pass through the calls with a context,
// and no others.

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

/// How numbers of several ranks are reduced to one. The mean is the sum times 1 / ranks. The minimum and the maximum
/// are NaN if one of the numbers is; if they are zeros of both signs, the lowest rank's is used. Sums of int64 wrap
/// around.
enum class reduce_op : std::uint8_t { sum, mean, min, max };

/// Trainers that call collectives together. Belongs to the trainer function; copies are the same group. Functions throw
/// `error` on arguments that are wrong whatever the other members pass. `at`: the caller's source location, for errors.
class group {
 public:
  using place = source_location;

  group(std::shared_ptr<runtime::group_calls> of, std::chrono::milliseconds deadline)
      : calls_(std::move(of)), deadline_(deadline) {}

  /// This trainer's rank in the group.
  std::uint32_t rank() const;
  std::uint32_t size() const;

  /// Makes a group of some members, by their ranks here; their new ranks follow the order of this list. Those members
  /// call this, and no others; each call makes another group.
  group subgroup(const std::vector<std::uint32_t>& ranks) const;
  /// Returns the same group, with another deadline for calls by this object. The initial one is `--request-timeout`
  /// between processes and `default_deadline` within one.
  group with_deadline(std::chrono::milliseconds deadline) const { return {calls_, deadline}; }

  /// Reduces all members' tensors, element by element. There is no mean of int64.
  future<tensor> all_reduce(const tensor& x, reduce_op how = reduce_op::sum, place at = place::current()) const;
  /// Sums all members' tensors, in a context. All members have the same gradient of the sum, as all compute the same
  /// loss from it; it passes unchanged to each member's input. Accepts float32 or float64, at least 1 number.
  future<tensor> all_reduce(context& in, const tensor& x, place at = place::current()) const;
  /// Returns `x` itself, which is the same on all members, and from which each computes its part of a sum. The
  /// gradients that come back are summed over the group, and the sum passes on: in `backward` all members wait for each
  /// other here, as in a collective. If no context has computed `x`, no gradient is exchanged.
  tensor all_reduce_gradient(context& in, const tensor& x, place at = place::current()) const;
  /// Returns the tensors of all members, by rank.
  future<std::vector<tensor>> all_gather(const tensor& x, place at = place::current()) const;
  /// Returns this rank's part of the reduction: its first dimension is cut into as many equal parts as there are
  /// members.
  future<tensor> reduce_scatter(const tensor& x, reduce_op how = reduce_op::sum, place at = place::current()) const;
  /// Returns the root's tensor; the other members' are ignored.
  future<tensor> broadcast(const tensor& x, std::uint32_t root, place at = place::current()) const;
  /// Returns the tensors of all members by rank at the root, and none elsewhere.
  future<std::vector<tensor>> gather(const tensor& x, std::uint32_t root, place at = place::current()) const;
  /// Returns the root's tensor for this rank. The root passes one for each rank; the other members' are ignored.
  future<tensor> scatter(std::span<const tensor> parts, std::uint32_t root, place at = place::current()) const;
  future<> barrier(place at = place::current()) const;

  /// Sends a copy of `x` to another member, which must receive it before its function returns.
  void send(const tensor& x, std::uint32_t to, std::uint32_t tag = 0, place at = place::current()) const;
  /// Returns the next tensor that a member has sent with this tag, in the order of its `send` calls.
  future<tensor> recv(std::uint32_t from, std::uint32_t tag = 0, place at = place::current()) const;

  /// The library alone uses these.
  runtime::group_calls& calls() const { return *calls_; }
  std::chrono::milliseconds deadline() const { return deadline_; }

 private:
  std::shared_ptr<runtime::group_calls> calls_;
  std::chrono::milliseconds deadline_;
};

}  // namespace troupe
