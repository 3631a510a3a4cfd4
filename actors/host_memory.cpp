#include "actors/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/hybrid.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;
constexpr double bytes_of_float = sizeof(float);

/// How many indices a sample has in a table.
double indices_per_sample(const model::job& what, const model::table_spec& table) {
  return std::max(table.indices_per_sample, static_cast<double>(what.bag));
}

}  // namespace

host_need need_on_host(const model::job& what, const model::data_spec& spec, const compute_devices& devices,
                       std::size_t ahead) {
  const model::network model = model::as_network(model::hybrid_model(spec, what));
  const double samples = model::samples_per_step(what);
  double indices = 0;
  double most_indices = 0;  // of a table
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
    constexpr double bytes_of_index = 40;  // its place in the order, twice, and its row's list; one table at a time
    const double bags = samples * static_cast<double>(spec.tables.size());
    need.servers = what.trainers * what.accumulate * (bags * bytes_of_bag + most_indices * bytes_of_index);
  }
  // A step computes, the next one is looked up, others are ready: they hold indices and dense features. The rows that
  // arrive and the gradients that leave are as wide as the input, and not there at the same time.
  const auto batches = static_cast<double>(ahead + 2 + model::lookups_ahead(what.staleness));
  const double features = samples * static_cast<double>(spec.dense_features) * bytes_of_float;
  const double prepared = batches * (indices * static_cast<double>(sizeof(std::int64_t)) + features);
  const double on_the_way = samples * static_cast<double>(model.in_features()) * bytes_of_float;
  const double computing = samples * static_cast<double>(model.numbers_per_sample()) * bytes_of_float;
  const double buffers = 3 + model::state_buffers(what.dense_optimizer);
  const double weights = static_cast<double>(model.parameter_count()) * buffers * bytes_of_float;
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

}  // namespace troupe::actors
