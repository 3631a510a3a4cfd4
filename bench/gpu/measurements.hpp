// The measurements; each prints its figures.

#pragma once

#include <string>

#include "bench/gpu/lookups.hpp"
#include "bench/gpu/measuring.hpp"

namespace troupe::bench {

/// Returns the rate in GB/s, a limit for the other measurements.
double measure_copy(kernels::stream& on, const sizes& s, const report& to);

void measure_lookup(kernels::stream& on, const sizes& s, const report& to, const lookups& from, row_dtype type,
                    double copy_rate);
void measure_update(kernels::stream& on, const sizes& s, const report& to, const lookups& from,
                    const std::string& optimizer, double copy_rate);

/// A step of many tables: lookup and update.
void measure_recsys(kernels::stream& on, const sizes& s, const report& to, const std::string& optimizer);

/// Measures each layer, after the large one.
void measure_layers(kernels::device& device, const sizes& s, const report& to, matmul_precision precision);

void measure_steps(kernels::device& device, const sizes& s, const report& to, const lookups& from,
                   matmul_precision precision);

const char* name_of(matmul_precision precision);

}  // namespace troupe::bench
