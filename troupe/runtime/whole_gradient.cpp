#include "troupe/runtime/whole_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include "actors/trainer/clipping.hpp"
#include "actors/trainer/non_finite_watch.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/completion.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

namespace {

/// Calls `what` for each replica among `members`.
void for_replicas(const std::vector<trained>& members, auto what) {
  for (const trained& one : members)
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) what(**local);
}

/// Whether this replica's norm differs between trainers, or between those that share it.
bool is_of_some(const replica& one) { return !one.is_synchronized() || one.group() != nullptr; }

}  // namespace

/// In the first optimizer step with a whole gradient, the trainers agree on whether they exchange norms.
void whole_gradient::agree(bool has_own, const std::shared_ptr<promise<>>& done, std::function<void()> then) {
  const std::int64_t mine = has_own ? 1 : 0;
  reductions_.gather("the members of the optimizer", tensor::of<std::int64_t>(shape(1), std::span(&mine, 1)))
      .then([this, done, then = std::move(then)](future<std::vector<tensor>> all) {
        try {
          const auto answers = all.get();
          exchanges_ = std::ranges::any_of(answers, [](const tensor& one) { return one.as<std::int64_t>()[0] != 0; });
          then();
        } catch (...) {
          done->fail(std::current_exception());
        }
      });
}

void whole_gradient::apply(const std::vector<trained>& members, std::uint64_t step, std::shared_ptr<promise<>> done,
                           std::function<void()> then) {
  bool has_own = false;
  for_replicas(members, [&](const replica& one) { has_own = has_own || is_of_some(one); });
  if (assigned_.trainers == 1) exchanges_ = false;
  if (!exchanges_)
    return agree(has_own, done,
                 [this, members, step, done, then = std::move(then)] { apply(members, step, done, then); });
  if (has_own && !*exchanges_ && assigned_.trainers > 1)
    return done->fail(error(
        error_kind::input,
        "an optimizer step with replicas that not all trainers share, after steps without any; with clip_norm and "
        "nan_policy::skip, train those from the first step on"));
  model::exact_sum of_all;
  model::exact_sum of_this_trainer;
  for_replicas(members, [&](replica& one) {
    if (!is_of_some(one))
      of_all.merge(one.numbers().mean_squared_norm());
    else if (one.group() == nullptr || one.group()->rank() == 0)
      of_this_trainer.merge(one.numbers().mean_squared_norm());
  });
  if (auto spoilt = replicas_.spoilt(step)) return done->fail(*spoilt);
  if (!*exchanges_) {
    of_all.merge(of_this_trainer);
    return apply_clipped(members, of_all.value(), done, std::move(then));
  }
  const auto limbs = of_this_trainer.limbs();
  reductions_.gather("the norm of the gradient", tensor::of<std::int64_t>(shape(limbs.size()), limbs))
      .then([this, members, of_all, done = std::move(done),
             then = std::move(then)](future<std::vector<tensor>> sums) mutable {
        try {
          for (const tensor& one : sums.get()) {
            const auto sum = model::exact_sum::from(one.as<std::int64_t>());
            if (!sum) throw error(error_kind::run, "another trainer's norm of the gradient is not a sum");
            of_all.merge(*sum);
          }
          apply_clipped(members, of_all.value(), done, std::move(then));
        } catch (...) {
          done->fail(std::current_exception());
        }
      });
}

/// `squared_norm`: the replicas'.
void whole_gradient::apply_clipped(const std::vector<trained>& members, double squared_norm,
                                   const std::shared_ptr<promise<>>& done, std::function<void()> then) {
  const step_rules& rules = assigned_.rules;
  const double norm = std::sqrt(squared_norm + tables_.take_squared_norm());
  const actors::step_order order = actors::order_for(norm, rules.clip_norm);
  if (!order.apply && !rules.skips())
    return done->fail(
        error(error_kind::run, fmt::format("the gradient's norm is {}; {}", actors::kind_of(norm), spoilt_advice)));
  if (!order.apply) ++skipped_;
  const auto all = std::make_shared<completion>(done, [then = std::move(then)](const auto&) { then(); });
  tables_.order_step(members, order, all);
  for_replicas(members, [&](replica& one) {
    if (order.apply)
      one.numbers().apply(order.factor);
    else
      one.numbers().leave_out();
  });
  all->end_part();
}

}  // namespace troupe::runtime
