#include "actors/trainer/captured_network.hpp"

#include <utility>

namespace troupe::actors {

caf::error captured_network::begin(const msg::trainer_position& from, kernels::device& device) {
  if (auto error = whole_network::begin(from, device)) return error;
  graphs_.turn_on();
  first_ = from.steps_done + 2;  // the first step is not a graph: objects that it needs do not exist yet
  return {};
}

/// Launches the previous step's graph, waits for the step before that while the device is busy with this graph, and
/// begins this step's capture.
void captured_network::begin_step() {
  whole_network::begin_step();
  if (work_.step < first_) return;
  graphs_.begin();
  while (work_.replica->open_passes() > 1 && !work_.is_over()) {
    {
      const actor_trace::range waiting(work_.trace, trace::range_name::device_wait, work_.step);
      work_.replica->wait_for_pass();
    }
    take_loss();
  }
  work_.note_device_work();
  if (!work_.is_over()) work_.now.before = std::move(work_.now.rows);
}

dense_replica::pass captured_network::pass_of(const model::batch& samples, const float* input) {
  dense_replica::pass made = whole_network::pass_of(samples, input);
  made.is_waited_for = true;
  return made;
}

/// While a step is captured the device executes none of it, and the host does not wait.
void captured_network::await_device(bool needs_loss) {
  if (needs_loss || !graphs_.are_captured()) whole_network::await_device(needs_loss);
}

}  // namespace troupe::actors
