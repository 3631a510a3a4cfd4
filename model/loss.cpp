#include "model/loss.hpp"

namespace troupe::model {

loss_function loss_of(loss_kind kind, std::size_t count) {
  return [kind, count](kernels::stream& on, kernels::batch_part samples, const loss_targets& targets, float* outputs,
                       double* loss) {
    switch (kind) {
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
