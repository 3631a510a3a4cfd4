#include "cluster/nodes/run_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/common/device_advice.hpp"
#include "actors/master/final_weights.hpp"
#include "actors/master/run_plan.hpp"
#include "actors/trainer/memory_need.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "base/result.hpp"
#include "cluster/nodes/thread_memory.hpp"
#include "model/hybrid.hpp"
#include "model/memory.hpp"
#include "model/stages.hpp"

namespace troupe::nodes {

namespace {

/// The option by which a user reduces the dense weights.
const char* network_option(const model::job& what) { return what.layers.empty() ? "--hidden" : "--layers"; }

/// Reserves buffers for matrix products if trainers multiply on the processor. If the trainers have their own
/// processes, with the same limits as this one, only checks that those can reserve them. `room`: bytes that the run
/// keeps in this process.
result<void> check_products_of(const model::job& what, const model::network& model, std::uint64_t room,
                               const run_options& options) {
  constexpr double small = 8192;  // products of this size need no buffers (kernels/cpu/linear.cpp)
  if (options.devices.trainers || static_cast<double>(model.multiply_adds()) * model::samples_per_step(what) <= small)
    return {};
  const bool elsewhere = options.gather || options.devices.elsewhere;
  return elsewhere ? check_products(options.threads, 0) : prepare_products(options.threads, room);
}

/// Refuses a model that does not fit in memory, before anything is allocated.
result<void> check_memory(const model::job& what, const model::dataset& data, const run_options& options) {
  const actors::compute_devices& devices = options.devices;
  std::uint64_t tables = actors::weights_digest::bytes_max;
  for (const model::table_spec& table : data.spec().tables)
    if (!devices.servers)
      tables =
          model::bounded_sum(tables, model::table_bytes(table.rows, table.dim, what.row_dtype, what.sparse_optimizer));
  // Each trainer has weights, optimizer state and a gradient; the group has a sum.
  const model::network model = model::as_network(model::hybrid_model(data.spec(), what));
  const std::size_t weights = model.parameter_count();
  const std::uint64_t buffers = 2 + static_cast<std::uint64_t>(model::state_buffers(what.dense_optimizer));
  const std::uint64_t dense =
      devices.trainers ? 0 : model::bounded_product(weights, (what.trainers + 1) * buffers * sizeof(float));
  const std::uint64_t available = model::available_memory();
  if (tables > available)
    return bad_input(model::memory_fault("--rows, --tables: the tables with their optimizer's state", tables));
  const std::uint64_t all = model::bounded_sum(tables, dense);
  if (all > available)
    return bad_input(model::memory_fault(
        fmt::format("{}, --trainers: the dense weights of all trainers", network_option(what)), dense));
  return check_products_of(what, model, all, options);
}

/// Refuses dense weights, with the optimizer's state if checkpoints are saved, that exceed a message between processes.
result<void> check_messages(const model::job& what, const model::dataset& data, bool saves) {
  const int buffers = saves ? model::state_buffers(what.dense_optimizer) : 0;
  const std::uint64_t bytes = model::bounded_product(nn::count_of(model::hybrid_model(data.spec(), what).parameters()),
                                                     static_cast<std::uint64_t>(1 + buffers) * sizeof(float));
  if (bytes <= msg::blob::max_bytes) return {};
  return bad_input(
      "{}: the dense weights {}have {} bytes, between processes the limit is {}; use smaller or fewer layers, or "
      "'troupe train' without --processes",
      network_option(what), buffers > 0 ? "and their optimizer's state, which go into a checkpoint together, " : "",
      bytes, msg::blob::max_bytes);
}

}  // namespace

result<std::shared_ptr<const model::dataset>> check_run(const model::job& what, const run_options& options) {
  auto data = model::open_dataset(what);
  if (!data) return data;
  if (auto wrong = model::check_network(what, (*data)->spec())) return bad_input(std::move(*wrong));
  if (auto wrong = model::check_batches(what, **data, actors::total_steps(what, **data)))
    return bad_input(std::move(*wrong));
  if (const auto& from = options.checkpoints.from)
    if (auto wrong = model::check_resumed(from->manifest, what, **data, actors::total_steps(what, **data)))
      return bad_input(std::move(*wrong));
  const bool all_here = !options.gather || options.gather->own_members;
  result<void> fits = check_threads(options.threads);
  if (fits && options.gather) fits = check_descriptors(all_here ? what.servers + what.ranks() : 2);
  if (fits && options.gather) fits = check_messages(what, **data, options.checkpoints.store != nullptr);
  if (fits && all_here) fits = check_memory(what, **data, options);
  if (!fits) return tl::unexpected(fits.error());
  if (options.devices.step_graphs)
    if (const auto fault = actors::fault_of_step_graphs(what, (*data)->spec(), options.devices))
      return bad_input("--step-graph on: {}", *fault);
  if (!options.devices.elsewhere) TROUPE_DO(actors::check_devices(what, **data, options.devices));
  if (options.devices.trainers && what.parts() > 1)
    return bad_input("{}: parts of a network compute on the processor; use --device cpu, without --devices",
                     model::parts_option(what));
  if (what.streams() && (options.checkpoints.seconds > 0 || options.checkpoints.automatic))
    return bad_input(
        "--checkpoint-seconds {}: with --schedule pipedream a checkpoint empties the pipeline, so that the "
        "weights would depend on the time; use --checkpoint-every N",
        options.checkpoints.automatic ? "auto" : fmt::format("{}", options.checkpoints.seconds));
  if (!options.devices.trainers && all_here && what.matmul_precision != kernels::matmul_precision::f32)
    return bad_input("--matmul-precision: the processor multiplies matrices in f32 only; use --device cuda");
  return data;
}

result<actors::run_summary> run_job(const model::job& what, const run_options& options, const stop_request* user_stop) {
  auto checked = check_run(what, options);
  if (!checked && user_stop != nullptr && user_stop->requested()) return unbegun(options);
  TROUPE_TRY(data, std::move(checked));
  model::job planned = what;
  // Decided once for all processes: measured times differ between them.
  if (what.pipeline > 1 && what.stages.empty()) planned.stages = model::measured_stages(what, data->spec());
  if (planned.stages != what.stages && options.observer.on_note)
    options.observer.on_note(
        fmt::format("the stages begin at layers {} (as --stages)", fmt::join(planned.stages, ",")));
  const auto settings = model::to_settings(planned);
  const auto held = model::shared_job(settings, &planned);
  const run_request request{.servers = what.servers,
                            .trainers = what.ranks(),
                            .parts = what.parts(),
                            .settings = settings,
                            .data_digest = data->digest()};
  return run(request, options, user_stop);
}

}  // namespace troupe::nodes
