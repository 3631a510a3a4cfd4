#include "model/replay_file.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>

#include "base/text.hpp"
#include "model/datasets.hpp"
#include "model/memory.hpp"
#include "model/replay.hpp"

namespace troupe::model {

result<replay_file> replay_file::open(const std::string& path) {
  TROUPE_TRY(file, safetensors_file::open(path));
  // All tensors are read into memory; a sparse file may have any size.
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.header().tensors) bytes = std::max(bytes, tensor.end);
  if (const std::uint64_t available = available_memory(); bytes > available)
    return bad_input(memory_fault(fmt::format("{}: its tensors", printable(path)), bytes, available,
                                  "use a reference run with fewer steps"));
  const auto text = file.header().metadata.find("config");
  if (text == file.header().metadata.end())
    return bad_input("{}: __metadata__.config is missing: must be a reference run", printable(path));
  auto config = parse_replay_config(text->second);
  if (!config) return bad_input("{}: __metadata__.config: {}", printable(path), config.error().message);
  return replay_file{std::move(file), std::move(*config)};
}

result<std::vector<std::int64_t>> replay_file::integers(const std::string& name, std::uint64_t count) const {
  const auto* entry = file.find(name);
  if (entry != nullptr && entry->count() != count)
    return refuse(fmt::format("tensor {}: {} values: must be {}", name, entry->count(), count));
  return file.read_integers(name);
}

template <class Real>
result<std::vector<Real>> replay_file::reals(const std::string& name, std::uint64_t count) const {
  const auto* entry = file.find(name);
  if (entry != nullptr && entry->count() != count)
    return refuse(fmt::format("tensor {}: {} values: must be {}", name, entry->count(), count));
  auto values = [&] {
    if constexpr (std::is_same_v<Real, float>)
      return file.read_floats(name);
    else
      return file.read_doubles(name);
  }();
  if (!values) return values;
  const auto bad = std::ranges::find_if(*values, [](Real x) { return !std::isfinite(x); });
  if (bad == values->end()) return values;
  return refuse(fmt::format("tensor {}, value {}: {}: must be finite{}", name, bad - values->begin(), *bad,
                            std::is_same_v<Real, float> && std::isinf(*bad) ? " in float32" : ""));
}

template <class Real>
result<std::vector<Real>> replay_file::shaped(const std::string& name, const std::vector<std::uint64_t>& shape) const {
  const auto* entry = file.find(name);
  if (entry != nullptr && entry->shape != shape)
    return refuse(fmt::format("tensor {}: shape {}: must be {}", name, shape_text(entry->shape), shape_text(shape)));
  return reals<Real>(name, entry == nullptr ? 0 : entry->count());
}

template <class Real>
result<std::vector<std::vector<Real>>> replay_file::tables(std::string_view prefix) const {
  std::vector<std::vector<Real>> all;
  for (const auto& table : config.tables) {
    TROUPE_TRY(weights, shaped<Real>(fmt::format("{}.table.{}.weight", prefix, all.size()),
                                     {static_cast<std::uint64_t>(table.rows), table.dim}));
    all.push_back(std::move(weights));
  }
  return all;
}

template <class Real>
result<std::vector<Real>> replay_file::of_layers(std::string_view prefix,
                                                 std::vector<nn::parameter> (nn::module::*tensors)() const) const {
  TROUPE_TRY(layers, nn::make_layers(config.layers, config.input));
  std::vector<Real> all;
  for (std::size_t number = 0; number < layers.size(); ++number)
    for (const nn::parameter& tensor : (*layers[number].what.*tensors)()) {
      TROUPE_TRY(numbers, shaped<Real>(fmt::format("{}.layer.{}.{}", prefix, number, tensor.name),
                                       {tensor.shape.begin(), tensor.shape.end()}));
      std::ranges::copy(numbers, std::back_inserter(all));
    }
  return all;
}

template <class Real>
result<std::vector<Real>> replay_file::buffers(std::string_view prefix) const {
  return of_layers<Real>(prefix, &nn::module::buffers);
}

result<std::vector<float>> replay_file::samples(const std::string& name, std::uint64_t samples) const {
  std::vector<std::uint64_t> shape{samples};
  shape.insert(shape.end(), config.input.begin(), config.input.end());
  return shaped<float>(name, shape);
}

template <class Real>
result<std::vector<Real>> replay_file::dense(std::string_view prefix) const {
  if (!config.layers.empty()) return of_layers<Real>(prefix, &nn::module::parameters);
  std::uint64_t width = config.dense_features;
  for (const auto& table : config.tables) width += table.dim;
  std::vector<Real> all;
  for (std::size_t layer = 0; layer <= config.hidden.size(); ++layer) {
    const std::uint64_t next = layer < config.hidden.size() ? config.hidden[layer] : config.outputs;
    TROUPE_TRY(weight, shaped<Real>(fmt::format("{}.dense.{}.weight", prefix, layer), {next, width}));
    auto bias = shaped<Real>(fmt::format("{}.dense.{}.bias", prefix, layer), {next});
    if (!bias) return bias;
    std::ranges::copy(weight, std::back_inserter(all));
    std::ranges::copy(*bias, std::back_inserter(all));
    width = next;
  }
  return all;
}

template result<std::vector<float>> replay_file::reals(const std::string&, std::uint64_t) const;
template result<std::vector<double>> replay_file::reals(const std::string&, std::uint64_t) const;
template result<std::vector<std::vector<float>>> replay_file::tables(std::string_view) const;
template result<std::vector<std::vector<double>>> replay_file::tables(std::string_view) const;
template result<std::vector<float>> replay_file::dense(std::string_view) const;
template result<std::vector<double>> replay_file::dense(std::string_view) const;
template result<std::vector<float>> replay_file::buffers(std::string_view) const;
template result<std::vector<double>> replay_file::buffers(std::string_view) const;

namespace {

// The settings that a reference run determines.
constexpr std::array decided{"data",        "trainers",      "steps",           "hidden",           "layers",
                             "interaction", "loss",          "dense-optimizer", "sparse-optimizer", "dense-lr",
                             "sparse-lr",   "sparse-reduce", "micro-batches"};

// Reads the samples and outputs of the final evaluation of a network of layers.
result<void> read_evaluation(const replay_file& from, reference_run& to) {
  const auto* entry = from.file.find("eval.input");
  const bool has_samples = entry != nullptr && !entry->shape.empty() && entry->shape.front() > 0;
  const std::uint64_t samples = has_samples ? entry->shape.front() : 1;
  TROUPE_SET(to.eval_input, from.samples("eval.input", samples));
  TROUPE_SET(to.eval_output, from.shaped<double>("eval.output", {samples, from.config.outputs}));
  return {};
}

}  // namespace

std::vector<setting> replay_settings(const std::string& path, const replay_config& config) {
  job what;
  what.data = fmt::format("{}{}", replay_prefix, path);
  what.trainers = config.trainers;
  what.steps = config.steps;
  what.hidden = config.hidden;
  what.layers = config.layers;
  what.loss = config.loss;
  what.dense_optimizer = config.dense_optimizer;
  what.sparse_optimizer = config.sparse_optimizer;
  what.sparse_reduce = config.sparse_reduce;
  what.micro_batches = config.micro_batches;
  auto settings = to_settings(what);
  std::erase_if(settings, [](const setting& one) { return std::ranges::find(decided, one.first) == decided.end(); });
  return settings;
}

result<reference_run> open_reference_run(const std::string& path) {
  TROUPE_TRY(file, replay_file::open(path));
  reference_run run;
  run.settings = replay_settings(path, file.config);
  run.spec = spec_of(file.config);
  TROUPE_SET(run.tables, file.tables<double>("final"));
  TROUPE_SET(run.dense, file.dense<double>("final"));
  TROUPE_SET(run.buffers, file.buffers<double>("final"));
  if (!file.config.layers.empty()) TROUPE_DO(read_evaluation(file, run));
  for (std::uint32_t rank = 0; rank < file.config.trainers; ++rank) {
    auto losses = file.reals<double>(fmt::format("trainer.{}.loss", rank), file.config.steps);
    if (!losses) return tl::unexpected(std::move(losses.error()));
    run.losses.push_back(std::move(*losses));
  }
  return run;
}

}  // namespace troupe::model
