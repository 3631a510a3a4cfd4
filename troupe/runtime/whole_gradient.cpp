#include "troupe/runtime/whole_gradient.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "actors/clipping.hpp"
#include "actors/non_finite_watch.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/unfinished.hpp"

namespace troupe::runtime {

namespace {

/// Calls `what` for each replica among `members`.
void for_replicas(const std::vector<trained>& members, auto what) {
  for (const trained& one : members)
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) what(**local);
}

}  // namespace

void whole_gradient::apply(const std::vector<trained>& members, std::shared_ptr<promise<>> done,
                           std::function<void()> then) {
  model::exact_sum of_all;
  model::exact_sum of_this_trainer;
  bool is_exchanged = false;
  for_replicas(members, [&](replica& one) {
    const bool is_of_all = one.is_synchronized() && one.among() == nullptr;
    is_exchanged = is_exchanged || (!is_of_all && assigned_.trainers > 1);
    if (is_of_all)
      of_all.merge(one.numbers().mean_squared_norm());
    else if (one.among() == nullptr || one.among()->rank() == 0)
      of_this_trainer.merge(one.numbers().mean_squared_norm());
  });
  if (!is_exchanged) {
    of_all.merge(of_this_trainer);
    return apply(members, of_all.value(), done, std::move(then));
  }
  const auto limbs = of_this_trainer.limbs();
  reductions_.meet("the norm of the gradient", tensor::of<std::int64_t>(shape(limbs.size()), limbs))
      .then([this, members, of_all, done = std::move(done),
             then = std::move(then)](future<std::vector<tensor>> sums) mutable {
        try {
          for (const tensor& one : sums.get()) {
            const auto sum = model::exact_sum::from(one.as<std::int64_t>());
            if (!sum) throw error(error_kind::run, "another trainer's norm of the gradient is no sum");
            of_all.merge(*sum);
          }
          apply(members, of_all.value(), done, std::move(then));
        } catch (...) {
          done->fail(std::current_exception());
        }
      });
}

/// `squared_norm`: of the replicas.
void whole_gradient::apply(const std::vector<trained>& members, double squared_norm,
                           const std::shared_ptr<promise<>>& done, std::function<void()> then) {
  const step_rules& rules = assigned_.rules;
  const double norm = std::sqrt(squared_norm + tables_.take_squared_norm());
  const actors::step_order order = actors::order_for(norm, rules.clip_norm);
  if (!order.apply && !rules.skips())
    return done->fail(
        error(error_kind::run, fmt::format("the gradient's norm is {}; {}", actors::kind_of(norm), spoilt_advice)));
  if (!order.apply) ++skipped_;
  const auto all = std::make_shared<unfinished>(done, std::move(then));
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
