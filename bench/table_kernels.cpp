// bench_kernels: the kernels of tables.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/kernels.hpp"
#include "kernels/cpu/host_table_gradient.hpp"
#include "kernels/device.hpp"
#include "model/optimizer.hpp"

namespace troupe::bench {
namespace {

// -- tables -----------------------------------------------------------------------------------------------------------

/// A table, and batches of `size` bags of random indices. Each call of a kernel uses the next batch, so that a large
/// table's rows are not cached from the last call.
struct lookups {
  std::size_t rows;
  std::size_t dim;
  std::size_t size;
  std::size_t bag;
  std::vector<float> table;
  std::vector<std::vector<std::int64_t>> batches;
  std::vector<std::int64_t> offsets;

  explicit lookups(const State& state)
      : rows(static_cast<std::size_t>(state.range(0))),
        dim(static_cast<std::size_t>(state.range(1))),
        size(static_cast<std::size_t>(state.range(2))),
        bag(static_cast<std::size_t>(state.range(3))),
        table(random_floats(rows * dim)),
        batches(32) {
    std::mt19937_64 engine(3);
    for (auto& indices : batches) {
      for (std::size_t i = 0; i < size * bag; ++i) indices.push_back(static_cast<std::int64_t>(engine() % rows));
    }
    for (std::size_t b = 0; b < size; ++b) offsets.push_back(static_cast<std::int64_t>(b * bag));
  }

  kernels::bags_view next() { return {batches[++last_ % batches.size()], offsets, {}}; }
  double row_bytes() const { return static_cast<double>(size * bag * dim) * float_bytes; }
  double pooled_bytes() const { return static_cast<double>(size * dim) * float_bytes; }

 private:
  std::size_t last_ = 0;
};

void embedding_bag_forward(State& state, kernels::row_dtype type) {
  lookups what(state);
  std::vector<std::byte> stored(what.table.size() * size_of(type));
  kernels::encode(what.table.size(), what.table.data(), {stored.data(), type});
  std::vector<float> out(what.size * what.dim);
  const double narrower = static_cast<double>(size_of(type)) / float_bytes;
  run_on_rows(state, narrower * what.row_bytes() + what.pooled_bytes(), [&] {
    on.embedding_bag_forward(kernels::pooling::sum, {stored.data(), type}, what.dim, what.next(), out.data(), what.dim);
  });
}

void embedding_bag_backward(State& state) {
  lookups what(state);
  const auto grad = random_floats(what.size * what.dim);
  run_on_rows(state, 2 * what.row_bytes() + what.pooled_bytes(), [&] {
    kernels::embedding_bag_backward(kernels::pooling::sum, nullptr, what.dim, what.next(), grad.data(), what.dim,
                                    what.table.data());
  });
}

void gather_rows(State& state) {
  lookups what(state);
  std::vector<float> out(what.size * what.bag * what.dim);
  run_on_rows(state, 2 * what.row_bytes(),
              [&] { on.gather_rows(what.table.data(), what.dim, what.next().indices, out.data()); });
}

/// Two trainers' gradients of a step, by row, as a server groups them.
kernels::row_gradients grouped(kernels::host_table_gradient& table, kernels::sort_memory& memory,
                               kernels::group_memory& to, lookups& from, const std::vector<float>& grad) {
  table.clear(static_cast<std::int64_t>(from.rows));
  for (int trainer = 0; trainer < 2; ++trainer) table.add(kernels::pooling::sum, from.next(), grad.data(), from.dim);
  kernels::row_gradients gradients = table.group(memory, to);
  gradients.scale = 0.5F;
  return gradients;
}

void group_rows(State& state) {
  lookups what(state);
  const auto grad = random_floats(what.size * what.dim);
  kernels::host_table_gradient table;
  kernels::sort_memory memory;
  kernels::group_memory to;
  // Reads indices; writes an occurrence, and about one row number and start, for each.
  const double bytes_of_index = sizeof(std::int64_t) + sizeof(kernels::occurrence) + 12;
  run_streamed(state, static_cast<double>(2 * what.size * what.bag) * bytes_of_index,
               [&] { benchmark::DoNotOptimize(grouped(table, memory, to, what, grad)); });
}

void update_rows(State& state, const std::string& optimizer) {
  lookups what(state);
  const auto spec = *model::parse_optimizer(optimizer, model::optimizer_use::table);
  const auto constants = model::constants_at(spec, 10);
  const auto grad = random_floats(what.size * what.dim);
  std::vector<kernels::host_table_gradient> groups(16);
  kernels::sort_memory memory;
  std::vector<kernels::group_memory> grouped_to(groups.size());
  std::vector<kernels::row_gradients> steps;
  for (std::size_t i = 0; i < groups.size(); ++i)
    steps.push_back(grouped(groups[i], memory, grouped_to[i], what, grad));
  const std::size_t columns = model::state_columns(spec, what.dim);
  std::vector<float> first(what.rows * columns, 0.1F);
  std::vector<float> second(what.rows * columns, 0.1F);
  std::int64_t bad_row = 0;
  std::size_t step = 0;
  const bool every_row = model::visits_every_row(spec);
  const auto update = [&] {
    kernels::update_rows(constants, static_cast<std::int64_t>(what.rows), what.dim, what.table.data(),
                         {first.data(), second.data()}, steps[++step % steps.size()], every_row, &bad_row);
  };
  const double numbers_in_row =
      static_cast<double>(what.dim + static_cast<std::size_t>(model::state_buffers(spec)) * columns);
  const double rows = static_cast<double>(every_row ? what.rows : steps[0].rows.size());
  const double bytes = 2 * float_bytes * rows * numbers_in_row + 2 * what.pooled_bytes();
  if (every_row)
    run_streamed(state, bytes, update);
  else
    run_on_rows(state, bytes, update);
}

/// The wide job's table and batches; and one of Adult's, with a single index per bag.
void table_sizes(benchmark::internal::Benchmark* one) {
  one->ArgNames({"rows", "dim", "batch", "bag"});
  one->Args({1'000'000, 64, 1024, 26})->Args({100, 8, 128, 1})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(embedding_bag_forward, f32, kernels::row_dtype::f32)->Apply(table_sizes);
BENCHMARK_CAPTURE(embedding_bag_forward, bf16, kernels::row_dtype::bf16)->Apply(table_sizes);
BENCHMARK(embedding_bag_backward)->Apply(table_sizes);
BENCHMARK(gather_rows)->Apply(table_sizes);
BENCHMARK(group_rows)->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, sgd, std::string("sgd"))->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, lazy_momentum, std::string("lazy-sgd:momentum=0.9"))->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, adagrad, std::string("adagrad"))->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, rowwise_adagrad, std::string("rowwise-adagrad"))->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, lazy_adam, std::string("lazy-adam"))->Apply(table_sizes);
BENCHMARK_CAPTURE(update_rows, adam_every_row, std::string("adam"))->Apply(table_sizes);

}  // namespace
}  // namespace troupe::bench
