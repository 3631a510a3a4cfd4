#include "actors/device_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/epoch_tally.hpp"
#include "model/hybrid.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

namespace {

constexpr double mib = 1024.0 * 1024.0;
constexpr double float_bytes = sizeof(float);

/// Bytes that ranks take on a device.
struct device_need {
  double tables = 0;   ///< of one server, with the optimizer's state
  double step = 0;     ///< of one server's step: indices, how they are sorted by row, pooled rows and their gradients
  double weights = 0;  ///< of one trainer: dense weights, the optimizer's state, gradient; and the group's sum
  double batch = 0;    ///< of one trainer: activations, their gradients, and the workspace of matrix products

  double batches() const { return batch + step; }
  double all() const { return tables + weights + batches(); }
};

device_need need_of(const model::job& what, const model::dataset& data, bool step_graphs) {
  device_need need;
  const model::data_spec& spec = data.spec();
  const model::network model = model::as_network(model::hybrid_model(spec, what));
  const auto samples = static_cast<double>(model::batch_of_trainer(what));
  const double servers = std::max(1.0, static_cast<double>(what.servers));
  for (const model::table_spec& table : spec.tables) {
    need.tables +=
        static_cast<double>(model::table_bytes(table.rows, table.dim, what.row_dtype, what.sparse_optimizer)) / servers;
    constexpr double bytes_of_index =
        116;  // the index, its position in its row's list, and room for sorting and growth
    const double indices = samples * static_cast<double>(std::max<std::size_t>(1, what.bag));
    const double pooled = 2 * samples * static_cast<double>(table.dim) * float_bytes;
    need.step += what.trainers * what.accumulate * (indices * bytes_of_index + pooled) / servers;
  }
  // Gradients of two steps are there at a time if each step is a graph.
  const double buffers = 3 + model::state_buffers(what.dense_optimizer) + (step_graphs ? 1 : 0);
  // Besides the current step's: inputs of the steps around it, and gradients that servers have not applied yet.
  const std::uint64_t ahead = model::lookups_ahead(what.staleness);
  const auto further = static_cast<double>(ahead + 2 + what.accumulate + ahead);
  // In bf16 the layers save x, weights and gradients rounded as well.
  const double with_saved = what.matmul_precision == kernels::matmul_precision::bf16 ? 1.5 : 1.0;
  need.weights = static_cast<double>(model.parameter_count()) * (buffers + with_saved - 1) * float_bytes;
  const auto numbers =
      with_saved * static_cast<double>(model.numbers_per_sample()) + further * static_cast<double>(model.in_features());
  // Activations grow if more test rows are evaluated at once than a batch has, and their gradients do not.
  const std::uint64_t evaluated = what.eval_every > 0 ? std::min(data.test_rows(), test_rows_at_once) : 0;
  const double more = std::max(0.0, static_cast<double>(evaluated) - samples);
  const double numbers_of_row =
      with_saved * static_cast<double>(model.numbers_per_sample()) / 2 + static_cast<double>(model.in_features());
  need.batch =
      (samples * numbers + more * numbers_of_row) * float_bytes + static_cast<double>(kernels::matmul_workspace_bytes);
  return need;
}

/// Returns a fault if the device has less free memory than `need`. `advice`: what the user can try.
result<void> compare(const kernels::device& where, const device_need& need, const std::string& advice) {
  const kernels::memory_use there = where.memory();
  const auto free = static_cast<double>(there.free);
  if (need.all() <= free) return {};
  const std::string tables =
      need.tables > 0 ? fmt::format("tables with their optimizer's state {:.1f} MiB, ", need.tables / mib) : "";
  return bad_input(
      "CUDA device {}: {}dense weights {:.1f} MiB, batches and workspace {:.1f} MiB, together {:.1f} MiB, and {:.1f} "
      "of its {:.1f} MiB are free; use {}",
      where.number(), tables, need.weights / mib, need.batches() / mib, need.all() / mib, free / mib,
      static_cast<double>(there.total) / mib, advice);
}

result<void> check_device_memory(const model::job& what, const model::dataset& data, const compute_devices& devices) {
  const device_need need = need_of(what, data, devices.step_graphs);
  for (std::size_t place = 0; place < devices.numbers.size(); ++place) {
    const auto ranks_here = [&](bool any, std::size_t ranks) {
      const std::size_t here = (ranks + devices.numbers.size() - 1 - place) / devices.numbers.size();
      return any ? static_cast<double>(here) : 0.0;
    };
    const double trainers = ranks_here(devices.trainers, what.trainers);
    const double servers = ranks_here(devices.servers, what.servers);
    if (trainers + servers == 0) continue;
    const device_need there{servers * need.tables, servers * need.step, trainers * need.weights, trainers * need.batch};
    const std::string advice = fmt::format(
        "{}smaller batches (--batch-size), fewer rows (--rows) or trainers (--trainers), or more --devices{}",
        there.tables > 0 ? "--server-device cpu, " : "", devices.trainers ? ", or --device cpu" : "");
    if (auto fits = compare(devices.at(place), there, advice); !fits) return fits;
  }
  return {};
}

}  // namespace

std::optional<std::string> fault_of_step_graphs(const model::job& what, const model::data_spec& spec,
                                                const compute_devices& devices) {
  if (!devices.trainers || !devices.servers)
    return "the trainer and its tables are not on a CUDA device; use --device cuda, without --server-device cpu";
  if (devices.elsewhere) return "the trainer and its tables are in processes of their own; leave out --processes";
  if (what.ranks() > 1 || what.servers > 1)
    return "steps are one trainer's, with one server; use --trainers 1 --servers 1, without a pipeline or slices";
  if (what.elastic.trainers_max > 1) return "steps are one trainer's, and others may join; leave out --elastic";
  if (spec.tables.empty()) return "the network has no tables; leave it out";
  if (std::ranges::any_of(spec.tables, [](const auto& one) { return one.mode == kernels::pooling::max; }))
    return "tables of mode max are pooled by the host; leave it out";
  if (what.accumulate > 1) return "an optimizer step is one batch's; use --accumulate 1";
  if (what.clip_norm > 0) return "--clip-norm needs the gradient's norm within the step; leave one of them out";
  if (what.nan == model::nan_policy::skip)
    return "--nan skip needs the gradient's norm within the step; leave one of them out";
  if (what.staleness == model::any_staleness) return "--consistency async needs the loss within the step; use sync";
  if (what.wire_dtype != kernels::row_dtype::f32) return "rows in 16 bits are pooled by the host; use --wire-dtype f32";
  return std::nullopt;
}

result<void> check_devices(const model::job& what, const model::dataset& data, const compute_devices& devices) {
  if (!devices.trainers && !devices.servers) return {};
  const std::size_t vectors = data.spec().tables.size() + (data.spec().dense_features > 0 ? 1 : 0);
  if (devices.trainers && what.interaction == model::interaction_kind::dot &&
      vectors > kernels::interaction_vectors_max)
    return bad_input("--interaction dot: {} vectors, and CUDA devices take at most {}; use --device cpu, or cat",
                     vectors, kernels::interaction_vectors_max);
  try {
    return check_device_memory(what, data, devices);
  } catch (const kernels::device_error& refused) {
    const bool is_fault = refused.why() == kernels::device_error::reason::failed;
    return failure(is_fault ? fault_kind::device : fault_kind::input, refused.what());
  }
}

result<void> check_trainer_memory(const model::job& what, const model::dataset& data, bool step_graphs,
                                  const kernels::device& where) {
  if (where.is_host()) return {};
  const device_need need = need_of(what, data, step_graphs);
  return compare(where, {.weights = need.weights, .batch = need.batch},
                 "smaller batches (--batch-size), other --devices, or --device cpu");
}

}  // namespace troupe::actors
