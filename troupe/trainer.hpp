// A trainer, as the trainer function uses it: its rank, and the objects that it makes.

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/composition.hpp"
#include "troupe/context.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/group.hpp"
#include "troupe/loop.hpp"
#include "troupe/module.hpp"
#include "troupe/pipeline.hpp"
#include "troupe/remote_server.hpp"
#include "troupe/state.hpp"

namespace troupe {

namespace runtime {
class trainer_runtime;
}

/// One of the run's trainers, for its own function. Belongs to that function; copies are the same trainer.
class trainer {
 public:
  explicit trainer(runtime::trainer_runtime& of) : runtime_(&of) {}

  std::uint32_t rank() const;
  /// The number of trainers.
  std::uint32_t trainers() const;
  /// The number of servers.
  std::uint32_t servers() const;
  /// The run's seed (`--seed`).
  std::uint64_t seed() const;

  /// Whether the run continues from a checkpoint: by `--resume`, or restarted after a fault. Code before the saved loop
  /// then runs again; `load_state_dict` there does not change restored state.
  bool resumed() const;

  /// The optimizer steps that all trainers have skipped so far (`run_options::nan`).
  std::uint64_t skipped_steps() const;

  /// The group of all trainers.
  troupe::group group() const;

  context new_context() const;
  /// Returns a context for passes that do not train: modules see that, and nothing is recorded.
  context no_grad() const;

  /// The numbers 0 to n - 1, for a loop. A resumed run enters loops of `steps` and `batches` where the saved one was,
  /// after the iteration whose optimizer step the checkpoint followed. A run that saves checkpoints takes its optimizer
  /// steps in such loops, at most one in each iteration.
  step_loop steps(std::uint64_t n) const { return {*runtime_, n}; }
  /// The elements of a range, for a loop that resumes as one of `steps` does. Batches of `data_set::epoch` are made
  /// ahead as in `prefetch`, if they are large or `--prepare` is given.
  template <std::ranges::input_range Range>
  auto batches(Range&& range) const {
    if constexpr (requires { range.source().numbers_per_batch(); }) {
      return prefetch_loop<std::ranges::range_value_t<Range>>(
          *runtime_, range.size(), [range](std::uint64_t step) { return range.batch(step); },
          range.source().numbers_per_batch());
    } else {
      return batch_loop<Range>(*runtime_, std::forward<Range>(range));
    }
  }
  /// `make(0)` to `make(n - 1)`, for a loop that resumes as one of `steps` does. While the loop's body runs, idle
  /// threads call `make` for the next steps, maybe in another order; with `--prepare N`, N threads that do nothing
  /// else. With `--prepare 0`, or if no thread has called it yet, the loop itself calls `make`, at its step.
  ///
  /// So `make` must be a function of the step alone that any thread can call, for several steps at once: it changes
  /// nothing outside, awaits nothing, and computes in no context. Its exceptions are thrown at the head of the loop,
  /// when the loop reaches that step. A loop that is left waits for the running calls, and drops their results.
  template <std::copy_constructible Make>
  requires std::invocable<const Make&, std::uint64_t>
  auto prefetch(std::uint64_t n, Make make) const {
    using batch = std::remove_cvref_t<std::invoke_result_t<const Make&, std::uint64_t>>;
    return prefetch_loop<batch>(*runtime_, n, std::move(make), UINT64_MAX);
  }

  /// Saves `object.state_dict()` in checkpoints, under `name`, each trainer its own. In a resumed run, calls
  /// `object.load_state_dict` with it at once. Requires: `object` outlives the trainer function's last step. Past the
  /// position of the checkpoint, objects begin anew. Throws `error` if the name is in use, has characters other than
  /// letters, digits, '_' and '-', or if the checkpoint has no such state.
  template <class Object>
  void register_state(const std::string& name, Object& object) const {
    keep(
        name, [&object] { return object.state_dict(); },
        [&object](const named_tensors& state) { object.load_state_dict(state); });
  }
  /// Returns a server, to make modules there during the run.
  remote_server server(std::uint32_t rank) const { return remote_server(rank); }

  /// Makes this trainer's replica of a module. All trainers make the same modules in the same order.
  template <std::derived_from<nn::module> Module>
  troupe::data_parallel data_parallel(Module module, const data_parallel_options& options = {}) const {
    return make_replica(std::make_shared<const Module>(std::move(module)), options);
  }

  /// Makes this trainer's stage of a network: the stages' modules, one after the other, are numbered from the first
  /// stage on as in one `nn::sequential`. With P stages, trainer r has stage r % P of replica r / P. All trainers make
  /// the same pipelines, in the same order among their modules and subgroups. Throws `error` unless the number of
  /// trainers is a multiple of P, or if a module synchronizes.
  troupe::pipeline pipeline(const std::vector<nn::sequential>& stages, const pipeline_options& options = {}) const;

 private:
  troupe::data_parallel make_replica(std::shared_ptr<const nn::module> module,
                                     const data_parallel_options& options) const;
  void keep(const std::string& name, std::function<named_tensors()> state,
            const std::function<void(const named_tensors&)>& load) const;

  runtime::trainer_runtime* runtime_;
};

}  // namespace troupe
