#include "model/loss.hpp"

#include <algorithm>
#include <span>

#include "base/assert.hpp"

namespace troupe::model {

namespace {

/// Adds in row order.
void mean_of(const nn::own_loss& loss, kernels::batch_part samples, std::size_t count, const loss_targets& targets,
             float* outputs, double* sum) {
  const double share = 1 / static_cast<double>(samples.whole);
  *sum = 0;
  for (std::size_t row = 0; row < samples.size; ++row) {
    nn::loss_sample one{.outputs = {outputs + row * count, count}};
    if (loss.form == nn::loss_form::classes)
      one.target_class = targets.classes[row];
    else
      one.targets = {targets.values + row * count, count};
    *sum += loss.of_sample(one) * share;
    std::ranges::for_each(one.outputs, [share](float& x) { x = static_cast<float>(double{x} * share); });
  }
}

}  // namespace

loss_function loss_of(const loss_choice& chosen, std::size_t count) {
  return [chosen, count](kernels::stream& on, kernels::batch_part samples, const loss_targets& targets, float* outputs,
                         double* loss) {
    if (chosen.own != nullptr) {
      TROUPE_ASSERT(on.device().is_host());
      return mean_of(*chosen.own, samples, count, targets, outputs, loss);
    }
    switch (chosen.kind) {
      case loss_kind::cross_entropy:
        return on.softmax_cross_entropy(samples, count, outputs, targets.classes, outputs, loss);
      case loss_kind::bce_logits:
        return on.bce_with_logits(samples, count, outputs, targets.values, outputs, loss);
      case loss_kind::mse:
        return on.mean_squared_error(samples, count, outputs, targets.values, outputs, loss);
    }
  };
}

}  // namespace troupe::model
