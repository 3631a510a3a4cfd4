#include "model/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/result.hpp"
#include "model/datasets.hpp"
#include "model/input_file.hpp"
#include "model/replay_file.hpp"

namespace troupe::model {

namespace {

// A rank's bags of a table, for all steps; step s has the elements [starts[s], starts[s+1]).
struct rank_table {
  std::vector<std::uint64_t> index_starts;
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  std::vector<float> weights;
};

struct rank_data {
  std::vector<std::uint64_t> bag_starts;
  std::vector<rank_table> tables;
  std::vector<float> dense;
  std::vector<std::int64_t> classes;
  std::vector<float> values;
};

// A whole reference run in memory, shared by all of its data sets.
struct replay_data {
  replay_config config;
  data_spec spec;
  initial_weights start;
  std::vector<rank_data> ranks;

  batch batch_of(std::uint64_t step, std::uint32_t rank) const;
};

template <class T>
std::vector<T> slice(const std::vector<T>& from, std::uint64_t begin, std::uint64_t end) {
  const auto at = [&from](std::uint64_t i) { return from.begin() + static_cast<std::ptrdiff_t>(i); };
  return from.empty() ? std::vector<T>() : std::vector<T>(at(begin), at(end));
}

batch replay_data::batch_of(std::uint64_t step, std::uint32_t rank) const {
  const rank_data& data = ranks[rank];
  const std::uint64_t begin = data.bag_starts[step];
  const std::uint64_t end = data.bag_starts[step + 1];
  batch taken;
  taken.size = end - begin;
  for (const auto& table : data.tables) {
    const std::uint64_t first = table.index_starts[step];
    const std::uint64_t last = table.index_starts[step + 1];
    taken.tables.push_back(
        {slice(table.indices, first, last), slice(table.offsets, begin, end), slice(table.weights, first, last)});
  }
  taken.dense = slice(data.dense, begin * spec.dense_features, end * spec.dense_features);
  taken.classes = slice(data.classes, begin, end);
  taken.values = slice(data.values, begin * spec.outputs, end * spec.outputs);
  return taken;
}

// -- loading ---------------------------------------------------------------------------------------------------------

// Reads a tensor of counts by step, as the offsets of the steps; steps + 1 entries.
result<std::vector<std::uint64_t>> read_starts(const replay_file& from, const std::string& name) {
  constexpr std::int64_t count_max = std::int64_t{1} << 31;
  // With this limit, the product with a sample's values, at most 2^16, cannot overflow.
  constexpr std::uint64_t total_max = std::uint64_t{1} << 40;
  TROUPE_TRY(counts, from.integers(name, from.config.steps));
  std::vector<std::uint64_t> starts{0};
  for (const std::int64_t count : counts) {
    if (count < 0 || count > count_max)
      return from.refuse(
          fmt::format("tensor {}, step {}: {}: must be between 0 and {}", name, starts.size() - 1, count, count_max));
    starts.push_back(starts.back() + static_cast<std::uint64_t>(count));
    if (starts.back() > total_max)
      return from.refuse(fmt::format("tensor {}: {} in all: must be at most {}", name, starts.back(), total_max));
  }
  return starts;
}

// Reads a rank's bags and dense features.
result<void> read_features(const replay_file& from, const std::string& prefix, rank_data& to) {
  const auto& config = from.config;
  TROUPE_SET(to.bag_starts, read_starts(from, prefix + "bags"));
  const std::uint64_t samples = to.bag_starts.back();
  for (std::size_t t = 0; t < config.tables.size(); ++t) {
    const std::string table_prefix = fmt::format("{}table.{}.", prefix, t);
    rank_table& table = to.tables.emplace_back();
    TROUPE_SET(table.index_starts, read_starts(from, table_prefix + "index_count"));
    const std::uint64_t indices = table.index_starts.back();
    TROUPE_SET(table.indices, from.integers(table_prefix + "indices", indices));
    TROUPE_SET(table.offsets, from.integers(table_prefix + "offsets", samples));
    if (!config.tables[t].weighted) continue;
    TROUPE_SET(table.weights, from.reals<float>(table_prefix + "weights", indices));
  }
  if (config.dense_features > 0)
    TROUPE_SET(to.dense, from.reals<float>(prefix + "dense", samples * config.dense_features));
  return {};
}

// Reads one rank's input in a run with layers.
result<void> read_input_samples(const replay_file& from, const std::string& prefix, rank_data& to) {
  // The tensor limits the number of steps by the file's length.
  TROUPE_SET(to.dense, from.samples(prefix + "input", from.config.steps * from.config.batch));
  for (std::uint64_t step = 0; step <= from.config.steps; ++step) to.bag_starts.push_back(step * from.config.batch);
  return {};
}

result<void> read_rank(const replay_file& from, std::uint32_t rank, rank_data& to) {
  const auto& config = from.config;
  const std::string prefix = fmt::format("trainer.{}.", rank);
  auto read = config.layers.empty() ? read_features(from, prefix, to) : read_input_samples(from, prefix, to);
  if (!read) return read;
  const std::uint64_t samples = to.bag_starts.back();
  if (config.loss == loss_kind::cross_entropy)
    TROUPE_SET(to.classes, from.integers(prefix + "target", samples));
  else
    TROUPE_SET(to.values, from.reals<float>(prefix + "target", samples * config.outputs));
  return {};
}

result<replay_data> load_replay(const std::string& path) {
  TROUPE_TRY(from, replay_file::open(path));
  replay_data data;
  data.config = from.config;
  data.spec = spec_of(from.config);
  TROUPE_SET(data.start.tables, from.tables<float>("init"));
  TROUPE_SET(data.start.dense, from.dense<float>("init"));
  TROUPE_SET(data.start.buffers, from.buffers<float>("init"));
  for (std::uint32_t rank = 0; rank < from.config.trainers; ++rank) {
    TROUPE_DO(read_rank(from, rank, data.ranks.emplace_back()));
    for (std::uint64_t step = 0; step < from.config.steps; ++step) {
      const auto bad = check_batch(data.spec, data.batch_of(step, rank));
      if (bad) return from.refuse(fmt::format("trainer {}, step {} (from 0): {}", rank, step, *bad));
    }
  }
  return data;
}

// -- the data set ----------------------------------------------------------------------------------------------------

class replay final : public dataset {
 public:
  explicit replay(std::shared_ptr<const replay_data> data) : data_(std::move(data)) {}

  const data_spec& spec() const override { return data_->spec; }
  epoch_plan epochs() const override { return epoch_plan(data_->config.steps); }
  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    return data_->batch_of(step % data_->config.steps, rank);
  }
  std::optional<initial_weights> start() const override { return data_->start; }

 private:
  std::shared_ptr<const replay_data> data_;
};

// Checks that the job has the run's settings wherever the file's batches and weights depend on them.
std::optional<std::string> check_fit(const job& job, const std::string& path, const replay_config& config) {
  constexpr std::array<std::string_view, 5> fitting{"trainers", "loss", "hidden", "layers", "interaction"};
  const auto given = to_settings(job);
  for (const auto& [name, text] : replay_settings(path, config)) {
    if (std::ranges::find(fitting, name) == fitting.end()) continue;
    const std::string* own = value_of(given, name);
    if (own == nullptr) return fmt::format("--{}: must be {}, as in the reference run", name, text);
    if (*own != text) return fmt::format("--{} {}: must be {}, as in the reference run", name, *own, text);
  }
  if (job.servers == 0 && !config.tables.empty())
    return fmt::format("--servers 0: must be at least 1; the reference run has {} tables", config.tables.size());
  return std::nullopt;
}

}  // namespace

result<std::shared_ptr<const dataset>> open_replay(const job& job) {
  static shared_while_held<file_identity, replay_data> shared;
  const std::string path = job.data.substr(replay_prefix.size());
  auto data = shared.get(identity_of(path), [&path] { return load_replay(path); });
  if (!data) return tl::unexpected(std::move(data.error()));
  if (auto wrong = check_fit(job, path, (*data)->config)) return bad_input(std::move(*wrong));
  return std::make_shared<const replay>(std::move(*data));
}

}  // namespace troupe::model
