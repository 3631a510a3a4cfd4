// The collectives that gradients pass through, as nodes of a context's tape. Each is the backward pass of the other:
// the sum over a group passes its gradient on unchanged, and a tensor that is passed on unchanged sums its gradient.

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

#include "troupe/context.hpp"
#include "troupe/error.hpp"
#include "troupe/group.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/trainer_runtime.hpp"
#include "troupe/source_location.hpp"

namespace troupe {

namespace {

using runtime::node;
using runtime::tape;

/// Calls the sum over a group, when the user has another future than the call's own.
future<tensor> sum_among(const group& members, tensor x, const source_location& at,
                         std::shared_ptr<const detail::future_state> user_result) {
  runtime::group_calls& in = members.calls();
  return in.owner.call<tensor>(in, {.kind = runtime::collective_kind::all_reduce, .input = std::move(x)},
                               {members.deadline(), at, std::move(user_result)});
}

/// The sum over a group.
class sum_of_members final : public node {
 public:
  /// `source`: the node of this trainer's part; null if it needs no gradient.
  explicit sum_of_members(node* source) : source_(source) {}

  void backward(tape& /*on*/) override {
    tensor of_sum = std::exchange(grad, {});
    if (source_ != nullptr) tape::give(*source_, std::move(of_sum));
  }

  std::string spoilt() const override {
    const std::string where = runtime::where_spoilt(output);
    return where.empty() ? "" : fmt::format("the sum of all_reduce {}; look at what its members gave", where);
  }

 private:
  node* source_;
};

/// A tensor that all members have; its gradient is the sum of theirs.
class shared_by_members final : public node, public std::enable_shared_from_this<shared_by_members> {
 public:
  shared_by_members(group members, node& source, const source_location& at)
      : members_(std::move(members)), source_(source), at_(at) {}

  void backward(tape& on) override {
    // If the context is dropped meanwhile, so is this node, and the sum is ignored.
    sum_among(members_, std::exchange(grad, {}), at_, on.way_back())
        .then([me = weak_from_this(), &on](future<tensor> sum) {
          const auto here = me.lock();
          if (!here) return;
          try {
            tape::give(here->source_, sum.get());
          } catch (...) {
            return on.fail(std::current_exception());
          }
          on.owner().calls().executor()->post_function([me, &on] {  // passes that follow may wait
            if (const auto still_here = me.lock()) on.proceed();
          });
        });
  }
  bool waits() const override { return true; }

 private:
  group members_;
  node& source_;
  source_location at_;
};

/// Throws `error` if `x` cannot have a gradient.
void check_has_gradient(const char* call, const tensor& x) {
  if (x.type() == dtype::i64 || x.count() == 0)
    throw error(error_kind::input,
                fmt::format("{} in a context: a tensor {} of {}; it takes float32 or float64, at least 1 number", call,
                            to_string(x.shape()), name_of(x.type())));
}

}  // namespace

future<tensor> group::all_reduce(context& in, const tensor& x, place at) const {
  check_has_gradient("all_reduce", x);
  tape& on = in.tape();
  const auto made = std::make_shared<sum_of_members>(on.maker_of(x));
  auto answer = std::make_shared<promise<tensor>>();
  auto coming = answer->get_future();
  auto summing = sum_among(*this, x, at, answer->state());
  on.add({}, made);
  std::move(summing).then([answer, made](future<tensor> sum) {
    try {
      answer->set(tape::with_numbers(*made, sum.get()));
    } catch (...) {
      answer->fail(std::current_exception());
    }
  });
  return coming;
}

tensor group::all_reduce_gradient(context& in, const tensor& x, place at) const {
  check_has_gradient("all_reduce_gradient", x);
  tape& on = in.tape();
  node* const source = on.maker_of(x);
  return source == nullptr ? x : on.add(x, std::make_shared<shared_by_members>(*this, *source, at));
}

}  // namespace troupe
