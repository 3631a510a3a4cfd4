#include "actors/device_advice.hpp"

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
  constexpr double passes = 3;  // forwards, backwards to the input, and backwards to the weights
  const model::network network = model::as_network(model::hybrid_model(spec, what));
  const std::uint64_t of_network = std::max<std::uint64_t>(network.parameter_count(), network.multiply_adds());
  double of_sample = passes * static_cast<double>(of_network);
  for (const model::table_spec& table : spec.tables)
    of_sample += table.indices_per_sample * static_cast<double>(table.dim);
  return model::samples_per_step(what) * of_sample;
}

device_advice advice_for(const model::job& what, const model::data_spec& spec) {
  if (what.matmul_precision != kernels::matmul_precision::f32)
    return {true, "only CUDA devices multiply in the --matmul-precision that is asked for"};
  if (what.parts() > 1) return in_parts;
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
  return spec ? advice_for(what, *spec) : device_advice();
}

}  // namespace troupe::actors
