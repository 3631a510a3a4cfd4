// What a context remembers: a node for each thing that it computed, in the order of the computations.

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

/// Returns where NaN or Inf is in the numbers of some samples, as in `has NaN in sample 3 (number 13 of 32)`; "" if it
/// is nowhere.
std::string where_spoilt(const tensor& numbers);

/// Something computed, whose gradient may be wanted.
class node {
 public:
  virtual ~node() = default;

  /// Passes its output's gradient on to what it was computed from (`tape::give`). Called once it is complete.
  virtual void backward(tape& on) = 0;

  /// Computes what is still wanted of it, and frees its numbers. Called once, some time after `backward`.
  virtual void finish(tape& /*on*/) {}

  /// Returns which of its numbers are not finite, and what to try; "" if all are, or it does not know. Requires: what
  /// was computed before it in its context is finite.
  virtual std::string spoilt() const { return {}; }

  /// Whether its gradient stays until the optimizer's step: then it is not finished, and takes more of it until then.
  virtual bool keeps_gradient() const { return false; }
  /// Whether what `backward` passes on comes later; then `tape::go_on` follows, or `tape::fail`.
  virtual bool waits() const { return false; }

  /// The replica or the table that it belongs to, which finds its own nodes by it; null: neither.
  virtual const void* belongs_to() const { return nullptr; }

  /// What it has computed, for `spoilt`; empty: that is not here yet, or the way back has passed it.
  tensor output;
  /// Of the output; empty until something has come.
  tensor grad;
  /// The way back has passed it; it takes no more.
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
  /// Of all contexts of the process.
  std::uint64_t number() const { return number_; }
  /// Throws `error` unless it is training; `what`: what is not possible then.
  void check_training(const char* what) const;
  /// Throws `error` if `backward` was not awaited; `what`: what is not possible then.
  void check_not_going_back(const char* what) const;
  /// Returns a key for the random numbers of the next pass in this context.
  std::uint64_t next_key() const { return key_of(own_rank(), nodes_.size()); }
  /// The same for a network in slices, whose trainers may have computed other things before: it counts such passes.
  std::uint64_t next_key_of_slices(std::uint32_t replica) { return key_of(replica, passes_of_slices_++); }
  /// The same of a pass that is in this context at `place` of trainer `rank`.
  std::uint64_t key_of(std::uint32_t rank, std::uint64_t place) const;

  /// Returns `output` as what `made` has computed, or will have computed.
  tensor add(tensor output, std::shared_ptr<node> made);

  /// Returns `numbers` as what `made` has computed, which `add` was given without any.
  static tensor with_numbers(node& made, tensor numbers);

  /// The node that computed `x`; null: `x` is no result of a context, or nothing is recorded. Throws `error` if it is
  /// one of another context.
  node* maker_of(const tensor& x) const;

  /// Adds to the gradient of a node's output. The first one is taken as it is, and may be changed later.
  static void give(node& to, tensor grad);

  /// Goes back from `loss`, whose node was added last or before. Fails with `error` if it is no loss, or not finite;
  /// throws it if another way back is under way.
  future<> backward(const tensor& loss, double scale);
  /// Goes back likewise from outputs whose gradient is known.
  future<> backward(const tensor& outputs, tensor grad);
  /// What a node has waited for is here. In a task, since a pass may wait for other trainers.
  void go_on();
  void fail(const std::exception_ptr& why) {
    is_going_back_ = false;
    done_->fail(why);
  }
  /// What `backward` has returned last. Requires: it is going back.
  std::shared_ptr<const detail::future_state> way_back() const { return done_->state(); }
  /// An optimizer step is taken with it.
  void mark_stepped() { has_stepped_ = true; }
  bool has_stepped() const { return has_stepped_; }
  /// Whether one of its losses was NaN or Inf, where that leaves the optimizer step out.
  bool is_spoilt() const { return is_spoilt_; }
  /// Whether it has been gone back from any loss.
  bool has_gone_back() const { return has_gone_back_; }

  /// Finishes what the last way back has passed; called before more is computed.
  void finish_passed();
  /// What the last way back has passed, and is not finished yet; in the order of the computations.
  passed_nodes& passed() { return passed_; }
  /// Takes what the last way back of another tape has passed, for the optimizer step of this one. `kept` keeps that
  /// tape.
  void take_passed(tape& of, std::shared_ptr<const void> kept);
  /// The sum of the gradients of finished passes of a replica, on its device; empty: none.
  kernels::device_array<float>& finished_gradient(const replica& of) { return finished_gradients_[&of]; }
  /// Its numbers; null: none.
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
  std::string words_of_loss(double value) const;
  template <class Begin>
  future<> backward_by(Begin begin);
  void begin_backward(const tensor& loss, double scale);
  void begin_at(const tensor& output, node& from, tensor grad);
  void go_back();

  bool is_spoilt_ = false;
  bool has_gone_back_ = false;
  bool has_stepped_ = false;
  bool is_going_back_ = false;  ///< and waits
  boost::container::small_vector<std::shared_ptr<node>, usual_nodes> nodes_;
  std::uint64_t passes_of_slices_ = 0;
  passed_nodes passed_;
  std::shared_ptr<const void> kept_;  ///< another tape, whose nodes are in `passed_`
  std::map<const replica*, kernels::device_array<float>> finished_gradients_;
  std::size_t next_ = 0;           ///< nodes before this one wait for their gradients
  std::optional<promise<>> done_;  ///< of `backward`
};

}  // namespace troupe::runtime
