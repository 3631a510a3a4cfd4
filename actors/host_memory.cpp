#include "actors/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/hybrid.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;
constexpr double bytes_of_float = sizeof(float);

/// How many indices a sample has, in all tables.
double indices_per_sample(const model::job& what, const model::data_spec& spec) {
  double all = 0;
  for (const model::table_spec& table : spec.tables)
    all += std::max(table.indices_per_sample, static_cast<double>(what.bag));
  return all;
}

}  // namespace

host_need need_on_host(const model::job& what, const model::data_spec& spec, const compute_devices& devices,
                       std::size_t ahead) {
  const model::hybrid_model model(spec, what);
  const double samples = model::samples_per_step(what);
  const double indices = samples * indices_per_sample(what, spec);
  host_need need;
  if (!devices.servers) {
    for (const model::table_spec& table : spec.tables)
      need.tables +=
          static_cast<double>(model::table_bytes(table.rows, table.dim, what.row_dtype, what.sparse_optimizer));
    constexpr double bytes_of_index = 60;  // the row, its place in the order, its source, its row's list
    need.servers = what.trainers * what.accumulate * indices * bytes_of_index;
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
  return fmt::format("{}; {:.1f} GiB are available: a smaller --batch-size or fewer --trainers take less", much,
                     available / gib);
}

}  // namespace troupe::actors
