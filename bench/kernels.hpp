// Shared by the kernel benchmarks: a kernel's rate on one core, beside this machine's limit.

#pragma once

#include <benchmark/benchmark.h>

#include <ctime>
#include <random>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::bench {

using benchmark::State;

struct rates {
  double copy = 0;
  double gather = 0;
  double sgemm = 0;
};

/// This machine's rates on one core, measured before the first benchmark.
inline rates machine;

constexpr double float_bytes = sizeof(float);

inline kernels::stream& on = kernels::host_stream();

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// How often per second this thread can call `body`.
template <class Body>
double calls_per_second(State& state, const Body& body) {
  body();
  const double begin = thread_seconds();
  for (auto _ : state) body();
  return static_cast<double>(state.iterations()) / (thread_seconds() - begin);
}

/// Runs a kernel that streams `bytes` per call.
template <class Body>
void run_streamed(State& state, double bytes, const Body& body) {
  const double rate = bytes * calls_per_second(state, body);
  state.counters["GB/s"] = rate / 1e9;
  state.counters["copy_%"] = 100 * rate / machine.copy;
}

/// Runs a kernel that reads and writes `bytes` of random rows per call.
template <class Body>
void run_on_rows(State& state, double bytes, const Body& body) {
  const double rate = bytes * calls_per_second(state, body);
  state.counters["GB/s"] = rate / 1e9;
  state.counters["gather_%"] = 100 * rate / machine.gather;
}

/// Runs a product of `operations` operations per call.
template <class Body>
void run_product(State& state, double operations, const Body& body) {
  const double rate = operations * calls_per_second(state, body);
  state.counters["GFLOP/s"] = rate / 1e9;
  state.counters["sgemm_%"] = 100 * rate / machine.sgemm;
}

inline std::vector<float> random_floats(std::size_t count) {
  std::mt19937 engine(7);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(engine() % 2001) / 1000.0F - 1.0F;
  return numbers;
}

}  // namespace troupe::bench
