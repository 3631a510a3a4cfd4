#include "model/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/assert.hpp"
#include "base/stop_grace.hpp"
#include "model/datasets.hpp"
#include "model/job.hpp"

namespace troupe::model {

result<batch> dataset::test_batch(std::uint64_t, std::size_t) const {
  batch empty;
  empty.tables.resize(spec().tables.size());
  return empty;
}

std::optional<std::string> check_share(const job& job, std::uint64_t rows, const std::string& source) {
  if (rows < job.trainers)
    return fmt::format(
        "--trainers {}: {} has {} training rows: must be at least one for each trainer; use fewer trainers",
        job.trainers, source, rows);
  if (rows < job.batch_size)
    return fmt::format("--batch-size {}: must be at most {}, the training rows of {}", job.batch_size, rows, source);
  return std::nullopt;
}

std::uint64_t numbers_per_batch(const job& job, const data_spec& spec) {
  std::uint64_t of_sample = spec.dense_features;
  for (const table_spec& table : spec.tables) {
    const double indices = job.bag > 0 ? static_cast<double>(job.bag) : std::ceil(table.indices_per_sample);
    of_sample += static_cast<std::uint64_t>(std::max(1.0, indices));
  }
  return batch_of_trainer(job) * of_sample;
}

namespace {

std::mutex held_mutex;
bool holds = false;
std::shared_ptr<const dataset> held;

result<std::shared_ptr<const dataset>> open_kind(const job& job, std::span<const std::uint64_t> row_index) {
  const auto kind = data_kind_of(job.data);
  if (!kind) return bad_input("--data {}: unknown data set", job.data);
  switch (*kind) {
    case data_kind::adult:
      return open_adult(job);
    case data_kind::tutorial:
      return open_tutorial(job);
    case data_kind::synthetic:
      return open_synthetic(job);
    case data_kind::criteo:
    case data_kind::csv:
      return open_files(job, row_index);
    case data_kind::mnist:
    case data_kind::idx:
      return open_images(job);
    case data_kind::own:
      return open_own(job);
    case data_kind::replay:
      break;
  }
  return open_replay(job);
}

}  // namespace

result<std::shared_ptr<const dataset>> open_dataset(const job& job, std::span<const std::uint64_t> row_index) {
  const code_under_way under_way([&job] {
    return open_code{.what = fmt::format("--data {} is still being read", job.data), .is_awaited = false};
  });
  auto opened = open_kind(job, row_index);
  const std::lock_guard lock(held_mutex);
  if (opened && holds) held = *opened;
  return opened;
}

dataset_holder::dataset_holder() {
  const std::lock_guard lock(held_mutex);
  TROUPE_ASSERT(!holds);
  holds = true;
}

dataset_holder::~dataset_holder() {
  const std::lock_guard lock(held_mutex);
  holds = false;
  held.reset();
}

}  // namespace troupe::model
