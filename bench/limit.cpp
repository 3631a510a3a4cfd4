// bench_limit: the fastest training of a job of given sizes on this machine, from rates measured now.
//
// A step takes at least the time of its layers' products (forward, and backward for weights and inputs, including the
// first layer's inputs) at the rate of sgemm on all cores at once, and then the time to gather the tables' rows and
// scatter their gradients at the rate of random rows. Prints one JSON line; `one_core_samples_per_s` is the same from
// the rate of sgemm on one core alone, times the cores: out of reach if cores are threads of one physical core.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "bench/machine.hpp"
#include "kernels/cpu/blas.hpp"

int main(int argc, char** argv) {
  std::size_t batch = 1024;
  std::size_t tables = 1;
  std::size_t dim = 64;
  std::size_t bag = 26;
  std::size_t classes = 2;
  std::size_t trainers = 2;
  std::vector<std::size_t> hidden{512, 256};
  CLI::App app(
      "The fastest that this machine could train a job of these sizes (default: the wide job), as a JSON line.");
  const CLI::Range positive(std::size_t{1}, std::size_t{1} << 20);
  app.add_option("--batch-size", batch, "samples per trainer and step")->check(positive);
  app.add_option("--tables", tables, "embedding tables")->check(positive);
  app.add_option("--dim", dim, "width of each table's rows")->check(positive);
  app.add_option("--bag", bag, "indices per table and sample")->check(positive);
  app.add_option("--hidden", hidden, "widths of the hidden layers, such as 512,256")->delimiter(',')->check(positive);
  app.add_option("--classes", classes, "width of the output")->check(positive);
  app.add_option("--trainers", trainers, "trainers")->check(positive);
  CLI11_PARSE(app, argc, argv);

  std::size_t width = tables * dim;
  std::size_t weights = 0;
  hidden.push_back(classes);
  for (const std::size_t next : hidden) {
    weights += width * next;
    width = next;
  }
  const auto samples = static_cast<double>(trainers * batch);
  constexpr double products = 3;             // forward, weights' gradient, inputs' gradient
  constexpr double operations_a_term = 2;    // a multiplication and an addition
  constexpr double times_over_the_rows = 2;  // gathered, scattered
  const double flops = operations_a_term * products * samples * static_cast<double>(weights);
  const double bytes = times_over_the_rows * samples * static_cast<double>(tables * bag * dim * sizeof(float));

  const std::size_t cores = std::min<std::size_t>(trainers, std::max(1U, std::thread::hardware_concurrency()));
  const double one_core = troupe::bench::sgemm_rate(1);
  const double sgemm = troupe::bench::sgemm_rate(cores);
  const double gather = troupe::bench::gather_rate(cores);
  const double product_seconds = flops / sgemm;
  const double row_seconds = bytes / gather;
  const double steps = 1 / (product_seconds + row_seconds);
  const double one_core_steps = 1 / (flops / (one_core * static_cast<double>(cores)) + row_seconds);
  fmt::print(
      "{{\"event\":\"limit\",\"cores\":{},\"blas_kernels\":\"{}\",\"one_core_sgemm_gflops\":{:.1f},"
      "\"sgemm_gflops\":{:.1f},\"gather_gb_per_s\":{:.2f},\"product_ms\":{:.3f},\"row_ms\":{:.3f},"
      "\"steps_per_s\":{:.2f},\"samples_per_s\":{:.0f},\"one_core_samples_per_s\":{:.0f}}}\n",
      cores, troupe::kernels::blas_kernels(), one_core / 1e9, sgemm / 1e9, gather / 1e9, product_seconds * 1e3,
      row_seconds * 1e3, steps, steps * samples, one_core_steps * samples);
}
