// The record of a context: a node for each computation, in order.

#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_array.hpp"
#include "troupe/future.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

class replica;
class tape;
class trainer_runtime;

constexpr const char* spoilt_advice = "try a smaller learning rate";
constexpr const char* given_spoilt = "it was given so: look at the data";

/// Returns where NaN or Inf is in the numbers of some samples, as in `has NaN in sample 3 (number 13 of 32)`; "" if
/// nowhere.
std::string where_spoilt(const tensor& numbers);

/// A computation, whose gradient may be needed.
class node {
 public:
  virtual ~node() = default;

  /// Passes its output's gradient on to its inputs (`tape::give`). Called once the gradient is complete.
  virtual void backward(tape& on) = 0;

  /// Computes the remaining gradients, and frees its numbers. Called once, some time after `backward`.
  virtual void finish(tape& /*on*/) {}

  /// Describes which of its numbers are not finite, and what to try; "" if all are finite, or if it does not know.
  /// Requires: all earlier results in its context are finite.
  virtual std::string spoilt() const { return {}; }

  /// Whether its gradient stays until the optimizer's step: it is not finished before, and accepts more gradient.
  virtual bool keeps_gradient() const { return false; }
  /// Whether `backward` completes later; `tape::proceed` or `tape::fail` follows.
  virtual bool waits() const { return false; }

  /// The replica or table that it belongs to, which finds its own nodes by it, or null.
  virtual const void* belongs_to() const { return nullptr; }

  /// The result, for `spoilt`; empty if it is not there yet, or if the backward pass has passed it.
  tensor output;
  /// The output's gradient; empty at first.
  tensor grad;
  /// The backward pass has passed it; it accepts no more gradient.
  bool is_spent = false;
};

/// Belongs to a trainer.
class tape {
 public:
  static constexpr std::size_t usual_nodes = 8;  ///< of a small model
  using passed_nodes = boost::container::small_vector<node*, usual_nodes>;

  /// Without `training` it records nothing.
  tape(trainer_runtime& of, bool training);

  trainer_runtime& owner() const { return owner_; }
  bool is_training() const { return training_; }
  /// Unique among the contexts of the process.
  std::uint64_t number() const { return number_; }
  /// Throws `error` unless it is training; `what`: the action that needs this.
  void check_training(const char* what) const;
  /// Throws `error` if `backward` was not awaited; `what`: the action that needs this.
  void check_not_going_back(const char* what) const;
  /// Returns the key for the random numbers of the context's next pass.
  std::uint64_t next_key() const { return key_of(own_rank(), nodes_.size()); }
  /// The same for a sliced network: counts only passes of sliced networks, as its trainers may have computed different
  /// things before.
  std::uint64_t next_key_of_slices(std::uint32_t replica) { return key_of(replica, passes_of_slices_++); }
  /// Returns the key of the pass at index `place` of trainer `rank` in this context.
  std::uint64_t key_of(std::uint32_t rank, std::uint64_t place) const;

  /// Returns `output` as the result of `made`, which may follow later.
  tensor add(tensor output, std::shared_ptr<node> made);

  /// Returns `numbers` as the result of `made`, which was added without any.
  static tensor with_numbers(node& made, tensor numbers);

  /// The node that computed `x`; null if `x` is not a result of a context, or if nothing is recorded. Throws `error` if
  /// `x` is another context's result.
  node* maker_of(const tensor& x) const;

  /// Adds to the gradient of a node's output. The first one is used without a copy, and may be changed later.
  static void give(node& to, tensor grad);

  /// Runs the backward pass from `loss`, whose node may be the last or an earlier one. Fails with `error` if it is not
  /// a loss, or not finite; throws it if another backward pass is active.
  future<> backward(const tensor& loss, double scale);
  /// Runs the backward pass from outputs with a known gradient.
  future<> backward(const tensor& outputs, tensor grad);
  /// Continues when the result that a node waited for is there. Call it in a task, since a pass may wait for other
  /// trainers.
  void proceed();
  void fail(const std::exception_ptr& why) {
    is_going_back_ = false;
    done_->fail(why);
  }
  /// The state of the last future that `backward` returned. Requires: it is going back.
  std::shared_ptr<const detail::future_state> way_back() const { return done_->state(); }
  /// Marks that an optimizer step uses it.
  void mark_stepped() { has_stepped_ = true; }
  bool has_stepped() const { return has_stepped_; }
  /// Whether one of its losses was NaN or Inf, in a run that then skips the optimizer step.
  bool is_spoilt() const { return is_spoilt_; }
  /// Whether it has had a backward pass.
  bool has_gone_back() const { return has_gone_back_; }

  /// Finishes the nodes that the last backward pass has passed; called before more is computed.
  void finish_passed();
  /// The nodes that the last backward pass has passed and that are not finished, in the order of the computations.
  passed_nodes& passed() { return passed_; }
  /// Moves the passed nodes of another tape here, for this one's optimizer step. `kept` keeps that tape alive.
  void take_passed(tape& of, std::shared_ptr<const void> kept);
  /// The sum of the gradients of a replica's finished passes, on its device; empty without any.
  kernels::device_array<float>& finished_gradient(const replica& of) { return finished_gradients_[&of]; }
  /// The address of that sum, or null.
  const float* finished_gradient_of(const replica& of) const {
    const auto found = finished_gradients_.find(&of);
    return found == finished_gradients_.end() ? nullptr : found->second.data();
  }

  std::span<const std::shared_ptr<node>> nodes() const { return {nodes_.data(), nodes_.size()}; }

 private:
  trainer_runtime& owner_;
  std::uint64_t number_;
  bool training_;
  std::uint64_t context_;  ///< counts the trainer's training contexts
  std::uint32_t own_rank() const;
  std::string loss_text(double value) const;
  template <class Begin>
  future<> backward_by(Begin begin);
  void begin_backward(const tensor& loss, double scale);
  void begin_at(const tensor& output, node& from, tensor grad);
  void go_back();

  bool is_spoilt_ = false;
  bool has_gone_back_ = false;
  bool has_stepped_ = false;
  bool is_going_back_ = false;  ///< a backward pass has begun, and not ended
  boost::container::small_vector<std::shared_ptr<node>, usual_nodes> nodes_;
  std::uint64_t passes_of_slices_ = 0;
  passed_nodes passed_;
  std::shared_ptr<const void> kept_;  ///< keeps another tape alive, whose nodes are in `passed_`
  std::map<const replica*, kernels::device_array<float>> finished_gradients_;
  std::size_t next_ = 0;           ///< nodes before this one wait for their gradients
  std::optional<promise<>> done_;  ///< of `backward`
};

}  // namespace troupe::runtime
