#include "actors/trainer/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/trainer/rank_evaluation.hpp"
#include "model/hybrid.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

namespace {

constexpr double mib = 1024.0 * 1024.0;
constexpr double gib = 1024.0 * mib;
constexpr double float_bytes = sizeof(float);

/// Returns how many indices a sample has in a table.
double indices_per_sample(const model::job& what, const model::table_spec& table) {
  return std::max(table.indices_per_sample, static_cast<double>(what.bag));
}

}  // namespace

host_need need_on_host(const model::job& what, const model::data_spec& spec, const compute_devices& devices,
                       std::size_t ahead) {
  const model::network model = model::as_network(model::hybrid_model(spec, what));
  const double samples = model::samples_per_step(what);
  double indices = 0;
  double most_indices = 0;  // the most indices of one table
  for (const model::table_spec& table : spec.tables) {
    indices += samples * indices_per_sample(what, table);
    most_indices = std::max(most_indices, samples * indices_per_sample(what, table));
  }
  host_need need;
  if (!devices.servers) {
    for (const model::table_spec& table : spec.tables)
      need.tables +=
          static_cast<double>(model::table_bytes(table.rows, table.dim, what.row_dtype, what.sparse_optimizer));
    constexpr double bytes_of_bag = 24;    // its source and scale, and room for growth
    constexpr double bytes_of_index = 40;  // its position in the order, twice, and its row's list; one table at a time
    const double bags = samples * static_cast<double>(spec.tables.size());
    need.servers = what.trainers * what.accumulate * (bags * bytes_of_bag + most_indices * bytes_of_index);
  }
  // One step computes, the next is looked up, others are ready: they hold indices and dense features. The arriving rows
  // and the leaving gradients are as wide as the input, and do not exist at the same time.
  const auto batches = static_cast<double>(ahead + 2 + model::lookups_ahead(what.staleness));
  const double features = samples * static_cast<double>(spec.dense_features) * float_bytes;
  const double prepared = batches * (indices * static_cast<double>(sizeof(std::int64_t)) + features);
  const double on_the_way = samples * static_cast<double>(model.in_features()) * float_bytes;
  const double computing = samples * static_cast<double>(model.numbers_per_sample()) * float_bytes;
  const double buffers = 3 + model::state_buffers(what.dense_optimizer);
  const double weights = static_cast<double>(model.parameter_count()) * buffers * float_bytes;
  need.trainers = what.trainers * (prepared + on_the_way + (devices.trainers ? 0 : computing + weights));
  return need;
}

std::optional<std::string> describe(const host_need& need, const model::job& what, double available) {
  if (need.all() < gib) return std::nullopt;
  const std::string much = fmt::format("about {:.1f} GiB of memory: tables {:.1f}, {} trainer{} {:.1f}, servers {:.1f}",
                                       need.all() / gib, need.tables / gib, what.trainers,
                                       what.trainers == 1 ? "" : "s", need.trainers / gib, need.servers / gib);
  if (need.all() <= available) return much;
  return fmt::format("{}; {:.1f} GiB are available: smaller batches (--batch-size) or fewer --trainers take less", much,
                     available / gib);
}

// -- on devices -----------------------------------------------------------------------

namespace {

/// Bytes that ranks need on a device.
struct device_need {
  double tables = 0;   ///< of one server, with the optimizer's state
  double step = 0;     ///< of one server's step: indices, their sorting by row, pooled rows and their gradients
  double weights = 0;  ///< of one trainer: dense weights, the optimizer's state, gradient; and the group's sum
  double batch = 0;    ///< of one trainer: activations, their gradients, and the workspace of matrix products

  double batches() const { return batch + step; }
  double all() const { return tables + weights + batches(); }
};

device_need need_on_device(const model::job& what, const model::dataset& data, bool step_graphs) {
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
    const double indices = samples * std::max(1.0, indices_per_sample(what, table));
    const double pooled = 2 * samples * static_cast<double>(table.dim) * float_bytes;
    need.step += what.trainers * what.accumulate * (indices * bytes_of_index + pooled) / servers;
  }
  // If each step is a graph, the gradients of two steps exist at a time.
  const double buffers = 3 + model::state_buffers(what.dense_optimizer) + (step_graphs ? 1 : 0);
  // Besides the current step's input: inputs of the steps around it, and gradients that servers have not applied yet.
  const std::uint64_t ahead = model::lookups_ahead(what.staleness);
  const auto further = static_cast<double>(ahead + 2 + what.accumulate + ahead);
  // In bf16 the layers also save rounded copies of x, weights and gradients.
  const double with_saved = what.matmul_precision == kernels::matmul_precision::bf16 ? 1.5 : 1.0;
  need.weights = static_cast<double>(model.parameter_count()) * (buffers + with_saved - 1) * float_bytes;
  const auto numbers =
      with_saved * static_cast<double>(model.numbers_per_sample()) + further * static_cast<double>(model.in_features());
  // If an evaluation passes more test rows at once than a batch has, activations grow, but their gradients do not.
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
  const device_need need = need_on_device(what, data, devices.step_graphs);
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
  const device_need need = need_on_device(what, data, step_graphs);
  return compare(where, {.weights = need.weights, .batch = need.batch},
                 "smaller batches (--batch-size), other --devices, or --device cpu");
}

}  // namespace troupe::actors
