#include "actors/common/device_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "model/hybrid.hpp"

namespace troupe::actors {

namespace {

const device_advice in_parts{false, "parts of a network compute on the processor"};

std::string in_millions(double count) {
  constexpr double million = 1e6;
  constexpr double least = 0.1;
  return count < least * million ? fmt::format("under {}", least) : fmt::format("{:.1f}", count / million);
}

}  // namespace

double step_multiplications(const model::job& what, const model::data_spec& spec) {
  constexpr double passes = 3;  // forward, backward to the input, and backward to the weights
  const model::network network = model::as_network(model::hybrid_model(spec, what));
  const std::uint64_t of_network = std::max<std::uint64_t>(network.parameter_count(), network.multiply_adds());
  double of_sample = passes * static_cast<double>(of_network);
  for (const model::table_spec& table : spec.tables)
    of_sample += table.indices_per_sample * static_cast<double>(table.dim);
  return model::samples_per_step(what) * of_sample;
}

std::optional<std::string> only_on_processor(const model::job& what, const nn::module& network) {
  if (what.loss.own != nullptr) return fmt::format("--loss {} computes on the processor", what.loss.own->name);
  if (const auto* own = what.dense_optimizer.own())
    return fmt::format("--dense-optimizer {} computes on the processor", own->name());
  const std::string layer = network.first_without_device_code();
  return layer.empty() ? std::nullopt : std::optional(fmt::format("the layer {} computes on the processor", layer));
}

device_advice advice_for(const model::job& what, const model::data_spec& spec) {
  if (what.matmul_precision != kernels::matmul_precision::f32)
    return {true, "only CUDA devices multiply in the --matmul-precision that is asked for"};
  if (what.parts() > 1) return in_parts;
  if (const auto added = only_on_processor(what, model::hybrid_model(spec, what))) return {false, *added};
  if (const auto* own = spec.tables.empty() ? nullptr : what.sparse_optimizer.own())
    return {false, fmt::format("--sparse-optimizer {} computes on the processor", own->name())};
  const double work = step_multiplications(what, spec);
  const bool on_devices = work >= device_multiplications;
  return {on_devices,
          fmt::format("{} million multiplications in a trainer's step, a CUDA device is worth it from {} million on{}",
                      in_millions(work), in_millions(device_multiplications),
                      on_devices ? "" : "; --device cuda computes there all the same")};
}

device_advice advice_for(const model::job& what) {
  if (what.parts() > 1) return in_parts;
  const auto spec = model::spec_of(what);
  return spec && !model::check_network(what, *spec) ? advice_for(what, *spec) : device_advice();
}

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

}  // namespace troupe::actors
