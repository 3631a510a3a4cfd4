// bench_gpu: the CUDA backend's rates on device 0 through the interface that the actors use, beside the card's limits,
// measured in the same run: a copy's bandwidth, and a large matrix product.
//
//   copy    a copy within the device; bytes read and written
//   lookup  the forward pass of embedding bags; counts each index, each row that it names, and the pooled rows once
//   update  a table's gradient from bags to updated rows: counts the gradient once per index, and each touched row and
//           its state as read and written once
//   recsys  lookup and update of 10 tables in one step; counts the ids of all tables
//   linear  the layers of the hybrid step, and one large layer as the limit; counts the product's operations only.
//           torch_gpu.py (`matmul`) measures cuBLAS alone at the same shapes
//   step    a step of the hybrid model with its table on the device. The host's time ends when the calls have
//           returned, on an idle stream
//
// Times are the host's between two waits for the device, over many calls: the median of several rounds. Inputs rotate,
// so that a call finds none of its own in the cache. Rows in several bags of a batch may be cached: `lookup` counts
// each occurrence. The results of each measured call are first compared with the host's.
//
// bench/torch_gpu.py measures the same in PyTorch.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <exception>

#include "bench/gpu/measurements.hpp"
#include "kernels/backend.hpp"
#include "kernels/devices.hpp"

namespace troupe::bench {
namespace {

constexpr std::array<matmul_precision, 3> precisions = {matmul_precision::f32, matmul_precision::tf32,
                                                        matmul_precision::bf16};

void measure(kernels::device& device, const sizes& s, const report& to) {
  const auto on = device.make_stream();
  const lookups from(*on, s);
  const double copy_rate = measure_copy(*on, s, to);
  for (const row_dtype type : {row_dtype::f32, row_dtype::bf16}) measure_lookup(*on, s, to, from, type, copy_rate);
  for (const char* optimizer : {"sgd", "rowwise-adagrad", "adagrad"})
    measure_update(*on, s, to, from, optimizer, copy_rate);
  for (const char* optimizer : {"sgd", "lazy-adam"}) measure_recsys(*on, s, to, optimizer);
  for (const matmul_precision precision : precisions) measure_layers(device, s, to, precision);
  for (const matmul_precision precision : precisions) measure_steps(device, s, to, from, precision);
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  using namespace troupe;
  std::size_t scale = 1;
  bool json = false;
  CLI::App app("What the CUDA backend reaches on device 0.");
  app.add_option("--scale", scale, "divides tables and batches")->check(CLI::Range(1, 10'000));
  app.add_flag("--json", json, "a JSON object a line");
  CLI11_PARSE(app, argc, argv);

  kernels::device* device = nullptr;
  try {
    device = &kernels::cuda_backend().open(0);
  } catch (const kernels::device_error& error) {
    fmt::print("skipped: no CUDA device ({})\n", error.what());
    return 0;
  }
  try {
    const auto found = kernels::find_devices().devices;
    fmt::print(stderr, "{}, scale {}; limits: the copy, the large layer; cuBLAS alone: bench/torch_gpu.py, matmul\n",
               found.empty() ? "device 0" : found.front().name, scale);
    bench::measure(*device, bench::sizes(scale), bench::report(json));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
  return 0;
}
