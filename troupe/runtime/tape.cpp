#include "troupe/runtime/tape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/trainer/non_finite_watch.hpp"
#include "base/assert.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace

std::string where_spoilt(const tensor& numbers) {
  const std::size_t count = numbers.count();
  if (numbers.type() == dtype::i64 || count == 0) return {};
  kernels::non_finite found{.place = count};
  if (numbers.type() == dtype::f32) {
    kernels::host_stream().find_non_finite(count, numbers.as<float>().data(), &found);
  } else {
    const auto all = numbers.as<double>();
    const auto first = std::ranges::find_if(all, [](double one) { return !std::isfinite(one); });
    if (first != all.end()) found = {static_cast<std::uint64_t>(first - all.begin()), static_cast<float>(*first)};
  }
  if (found.place >= count) return {};
  const std::size_t samples = numbers.shape().dimensions() == 0 ? 1 : numbers.shape()[0];
  return fmt::format("has {} in sample {} (number {} of {})", actors::kind_of(static_cast<double>(found.number)),
                     found.place / (count / samples), found.place, count);
}

tape::tape(trainer_runtime& of, bool training)
    : owner_(of), number_(next_number()), training_(training), context_(training ? of.begin_context() : 0) {}

void tape::check_training(const char* what) const {
  if (!training_)
    throw error(error_kind::input, fmt::format("{} in a context of no_grad(), which remembers nothing; train in one of "
                                               "new_context()",
                                               what));
}

void tape::check_not_going_back(const char* what) const {
  if (is_going_back_)
    throw error(error_kind::run, fmt::format("{} while backward is under way; co_await it first", what));
  if (done_ && !done_->state()->was_awaited())
    throw error(error_kind::run,
                fmt::format("{} after a backward that was not awaited; co_await context.backward(...)", what));
}

std::uint32_t tape::own_rank() const { return owner_.rank(); }

std::uint64_t tape::key_of(std::uint32_t rank, std::uint64_t place) const {
  return model::random_bits(model::random_key(owner_.seed(), model::random_stream::network_passes, context_, rank),
                            place);
}

tensor tape::add(tensor output, std::shared_ptr<node> made) {
  output.context_ = number_;
  if (training_) output.node_ = static_cast<std::uint32_t>(nodes_.size());
  if (made) made->output = output;
  if (training_) nodes_.push_back(std::move(made));
  return output;
}

tensor tape::with_numbers(node& made, tensor numbers) {
  numbers.context_ = made.output.context_;
  numbers.node_ = made.output.node_;
  made.output = numbers;
  return numbers;
}

node* tape::maker_of(const tensor& x) const {
  if (x.context_ == 0) return nullptr;
  if (x.context_ != number_)
    throw error(error_kind::input, fmt::format("a tensor {} that another context has computed; within one batch, use "
                                               "one context",
                                               to_string(x.shape())));
  return training_ ? nodes_[x.node_].get() : nullptr;
}

void tape::give(node& to, tensor grad) {
  if (to.is_spent)
    throw error(
        error_kind::input,
        "a second way back through what a context has computed; compute it again for the second loss, or go back "
        "once from the sum of both (add)");
  if (to.grad.count() == 0) {
    to.grad = std::move(grad);
    return;
  }
  const auto sum = to.grad.as<float>();
  const auto more = grad.as<float>();
  TROUPE_ASSERT(sum.size() == more.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

void tape::finish_passed() {
  if (passed_.empty()) return;
  for (node* one : std::exchange(passed_, {})) one->finish(*this);
}

void tape::take_passed(tape& of, std::shared_ptr<const void> kept) {
  if (has_gone_back_)
    throw error(error_kind::run,
                "pipeline: a step with pipedream in a context that has gone back from another loss, or through another "
                "pipeline; there each batch has a context of its own");
  TROUPE_ASSERT(passed_.empty() && of.has_gone_back_);
  passed_ = std::exchange(of.passed_, {});
  has_gone_back_ = true;
  kept_ = std::move(kept);
}

template <class Begin>
future<> tape::backward_by(Begin begin) {
  check_not_going_back("a second backward");
  promise<> done;
  auto coming = done.get_future();
  done_ = std::move(done);
  is_going_back_ = true;
  try {
    begin();
    go_back();
  } catch (...) {
    fail(std::current_exception());
  }
  return coming;
}

future<> tape::backward(const tensor& loss, double scale) {
  return backward_by([&] { begin_backward(loss, scale); });
}

future<> tape::backward(const tensor& outputs, tensor grad) {
  return backward_by([&] {
    node* const from = maker_of(outputs);
    TROUPE_ASSERT(from != nullptr);
    begin_at(outputs, *from, std::move(grad));
  });
}

/// Returns the error of a loss that is not finite, with the first computation that knows why.
std::string tape::loss_text(double value) const {
  std::string why;
  for (const auto& one : nodes_)
    if (why = one->spoilt(); !why.empty()) break;
  return fmt::format("the loss is {}{}", actors::kind_of(value),
                     why.empty() ? fmt::format("; {}", spoilt_advice) : ": " + why);
}

void tape::begin_backward(const tensor& loss, double scale) {
  check_training("backward");
  node* const from = maker_of(loss);
  if (from == nullptr || loss.count() != 1)
    throw error(error_kind::input,
                fmt::format("backward from a tensor {} that {}; it goes from a loss, a single number of this context",
                            to_string(loss.shape()), from == nullptr ? "no context has computed" : "is not a loss"));
  if (!(std::abs(scale) <= static_cast<double>(std::numeric_limits<float>::max())))
    throw error(error_kind::input,
                fmt::format("backward: the scale of the loss is {}; it must be a finite number of float32", scale));
  const double value = loss.item();
  is_spoilt_ = is_spoilt_ || !std::isfinite(value);
  if (is_spoilt_ && !owner_.rules().skips()) throw error(error_kind::run, loss_text(value));
  // The trained members get NaN, and so does the gradient's norm, so that the optimizer step is skipped.
  if (is_spoilt_) scale = std::numeric_limits<double>::quiet_NaN();
  owner_.note_loss(value);
  tensor one{shape(1)};
  one.as<float>()[0] = static_cast<float>(scale);
  begin_at(loss, *from, std::move(one));
}

void tape::begin_at(const tensor& output, node& from, tensor grad) {
  finish_passed();
  give(from, std::move(grad));
  has_gone_back_ = true;
  next_ = output.node_ + std::size_t{1};
}

void tape::proceed() {
  try {
    go_back();
  } catch (...) {
    fail(std::current_exception());
  }
}

void tape::go_back() {
  while (next_ > 0) {
    node& next = *nodes_[--next_];
    if (next.grad.count() == 0 || next.is_spent) continue;
    next.backward(*this);
    next.output = {};
    if (!next.keeps_gradient()) {
      next.is_spent = true;
      passed_.push_back(&next);
    }
    if (next.waits()) return;
  }
  std::ranges::reverse(passed_);
  is_going_back_ = false;
  done_->set();
}

}  // namespace troupe::runtime
