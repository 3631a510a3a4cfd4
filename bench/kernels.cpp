// bench_kernels: each kernel's rate on one core, at the sizes of the wide job (a table of 1,000,000 x 64, batches of
// 1024 bags of 26, layers 512 and 256) and the Adult job, beside this machine's limits, measured in the same run.
//
// The counters: bytes or operations per second, and percent of a limit: of streaming copies (copy_%), of random rows
// (gather_%), of sgemm (sgemm_%). Data in a cache exceed 100 % of copies. Bytes are those that a kernel must read and
// write at least once.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/kernels.hpp"
#include "bench/machine.hpp"
#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/device.hpp"
#include "model/optimizer.hpp"

namespace troupe::bench {
namespace {

// -- layers -----------------------------------------------------------------------------------------------------------

/// A fully connected layer and one batch through it.
struct layer {
  std::size_t batch;
  std::size_t in;
  std::size_t out;
  std::vector<float> x;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> y;

  explicit layer(const State& state)
      : batch(static_cast<std::size_t>(state.range(0))),
        in(static_cast<std::size_t>(state.range(1))),
        out(static_cast<std::size_t>(state.range(2))),
        x(random_floats(batch * in)),
        weight(random_floats(out * in)),
        bias(random_floats(out)),
        y(random_floats(batch * out)) {}

  double operations() const { return 2.0 * static_cast<double>(batch * in * out); }
};

void linear_forward(State& state) {
  layer l(state);
  run_product(state, l.operations(), [&] {
    on.linear_forward(l.batch, l.in, l.out, l.x.data(), l.weight.data(), l.bias.data(), kernels::activation::none,
                      l.y.data());
  });
}

void linear_backward_parameters(State& state) {
  layer l(state);
  run_product(state, l.operations(), [&] {
    on.linear_backward_parameters(l.batch, l.in, l.out, l.x.data(), l.y.data(), l.weight.data(), l.bias.data());
  });
}

void linear_backward_input(State& state) {
  layer l(state);
  run_product(state, l.operations(),
              [&] { on.linear_backward_input(l.batch, l.in, l.out, l.weight.data(), l.y.data(), l.x.data()); });
}

/// The layers of the wide job, of Adult, and of the tutorial, whose tiny products our own loop computes.
void layer_sizes(benchmark::internal::Benchmark* one) {
  one->ArgNames({"batch", "in", "out"})->Unit(benchmark::kMicrosecond);
  one->Args({1024, 64, 512})->Args({1024, 512, 256})->Args({1024, 256, 2});
  one->Args({128, 70, 64})->Args({128, 64, 32})->Args({128, 32, 1})->Args({6, 16, 8});
}

BENCHMARK(linear_forward)->Apply(layer_sizes);
BENCHMARK(linear_backward_parameters)->Apply(layer_sizes);
BENCHMARK(linear_backward_input)->Apply(layer_sizes);

/// The vectors of a batch, and the buffer of their dots.
struct vectors {
  std::size_t batch;
  std::size_t count;
  std::size_t dim;
  std::vector<float> x;
  std::vector<float> dots;

  explicit vectors(const State& state)
      : batch(static_cast<std::size_t>(state.range(0))),
        count(static_cast<std::size_t>(state.range(1))),
        dim(static_cast<std::size_t>(state.range(2))),
        x(random_floats(batch * count * dim)),
        dots(random_floats(batch * kernels::pair_count(count))) {}

  template <class T>
  std::vector<kernels::row_matrix<T>> matrices(T* numbers) const {
    std::vector<kernels::row_matrix<T>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({numbers + i * dim, count * dim});
    return all;
  }

  double operations() const { return 2.0 * static_cast<double>(dots.size() * dim); }
};

void pairwise_dots(State& state) {
  vectors v(state);
  const auto x = v.matrices<const float>(v.x.data());
  run_product(state, v.operations(), [&] {
    on.pairwise_dots(v.batch, v.dim, x, {v.dots.data(), kernels::pair_count(v.count)});
  });
}

void pairwise_dots_backward(State& state) {
  vectors v(state);
  auto grads = v.x;
  const auto x = v.matrices<const float>(v.x.data());
  const auto grad_x = v.matrices(grads.data());
  run_product(state, 2 * v.operations(), [&] {
    on.pairwise_dots_backward(v.batch, v.dim, x, {v.dots.data(), kernels::pair_count(v.count)}, grad_x);
  });
}

/// Criteo's 26 tables and bottom MLP at two widths, and Adult's 8.
void vector_sizes(benchmark::internal::Benchmark* one) {
  one->ArgNames({"batch", "vectors", "dim"})->Unit(benchmark::kMicrosecond);
  one->Args({1024, 27, 64})->Args({256, 27, 16})->Args({128, 9, 8});
}

BENCHMARK(pairwise_dots)->Apply(vector_sizes);
BENCHMARK(pairwise_dots_backward)->Apply(vector_sizes);

// -- element by element -----------------------------------------------------------------------------------------------

void relu_forward(State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  auto x = random_floats(count);
  run_streamed(state, 2 * static_cast<double>(count) * float_bytes,
               [&] { kernels::host_stream().relu_forward(count, x.data(), x.data()); });
}

void relu_backward(State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto y = random_floats(count);
  auto grad = random_floats(count);
  run_streamed(state, 3 * static_cast<double>(count) * float_bytes,
               [&] { on.relu_backward(count, y.data(), grad.data(), grad.data()); });
}

/// A step of an LSTM: rows by the width of the state. Backward, the gates are restored each time, since their gradients
/// would shrink with every call.
void lstm_step(State& state, bool forward) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto hidden = static_cast<std::size_t>(state.range(1));
  const std::size_t count = rows * hidden;
  const auto recurrent = random_floats(4 * count);
  const auto before = random_floats(count);
  const auto grad_h = random_floats(count);
  const auto start = random_floats(4 * count);
  auto gates = start;
  auto c = random_floats(count);
  auto other = random_floats(count);  // h, or the gradient of c
  run_streamed(state, (forward ? 15 : 21) * static_cast<double>(count) * float_bytes, [&] {
    if (forward)
      return on.lstm_forward(rows, hidden, recurrent.data(), before.data(), gates.data(), c.data(), other.data());
    on.copy(start.data(), gates.data(), gates.size() * sizeof(float));
    on.lstm_backward(rows, hidden, before.data(), c.data(), grad_h.data(), other.data(), gates.data());
  });
}

BENCHMARK_CAPTURE(lstm_step, forward, true)->ArgNames({"rows", "hidden"})->Args({64, 256})->Args({16, 32});
BENCHMARK_CAPTURE(lstm_step, backward, false)->ArgNames({"rows", "hidden"})->Args({64, 256})->Args({16, 32});

/// The outputs of the first hidden layer: the wide job's, and Adult's.
BENCHMARK(relu_forward)->ArgName("count")->Arg(1024 * 512)->Arg(128 * 64)->Unit(benchmark::kMicrosecond);
BENCHMARK(relu_backward)->ArgName("count")->Arg(1024 * 512)->Arg(128 * 64)->Unit(benchmark::kMicrosecond);

void sum_in_rank_order(State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto first = random_floats(count);
  const auto second = random_floats(count);
  const std::vector<const float*> in{first.data(), second.data()};
  std::vector<float> out(count);
  run_streamed(state, 3 * static_cast<double>(count) * float_bytes,
               [&] { on.sum_in_rank_order(in, count, 0.5F, out.data()); });
}

void update_dense(State& state, const std::string& optimizer) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto spec = *model::parse_optimizer(optimizer, model::optimizer_use::dense);
  const auto constants = model::constants_at(spec, 10);
  const auto grad = random_floats(count);
  auto weights = random_floats(count);
  std::vector<float> first(count, 0.1F);
  std::vector<float> second(count, 0.1F);
  run_streamed(state, static_cast<double>(count) * float_bytes * (1 + 2 * (1 + model::state_buffers(spec))), [&] {
    on.update_dense(constants, count, weights.data(), {first.data(), second.data()}, grad.data());
  });
}

/// All dense weights of the wide job, and of Adult.
void weight_counts(benchmark::internal::Benchmark* one) {
  one->ArgName("weights")->Arg(165'122)->Arg(6'657)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(sum_in_rank_order)->Apply(weight_counts);
BENCHMARK_CAPTURE(update_dense, sgd, std::string("sgd"))->Apply(weight_counts);
BENCHMARK_CAPTURE(update_dense, momentum, std::string("sgd:momentum=0.9"))->Apply(weight_counts);
BENCHMARK_CAPTURE(update_dense, adagrad, std::string("adagrad"))->Apply(weight_counts);
BENCHMARK_CAPTURE(update_dense, adam, std::string("adam"))->Apply(weight_counts);

void cross_entropy(State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const auto classes = static_cast<std::size_t>(state.range(1));
  const auto logits = random_floats(batch * classes);
  const std::vector<std::int64_t> targets(batch, 1);
  std::vector<float> grad(batch * classes);
  run_streamed(state, static_cast<double>(batch) * (8 + 2 * float_bytes * static_cast<double>(classes)), [&] {
    double loss = 0;
    on.softmax_cross_entropy(batch, classes, logits.data(), targets.data(), grad.data(), &loss);
    benchmark::DoNotOptimize(loss);
  });
}

void bce_with_logits(State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const auto logits = random_floats(batch);
  const std::vector<float> targets(batch, 1.0F);
  std::vector<float> grad(batch);
  run_streamed(state, 3 * float_bytes * static_cast<double>(batch), [&] {
    double loss = 0;
    on.bce_with_logits(batch, 1, logits.data(), targets.data(), grad.data(), &loss);
    benchmark::DoNotOptimize(loss);
  });
}

void mean_squared_error(State& state) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const auto outputs = random_floats(batch);
  const std::vector<float> targets(batch, 1.0F);
  std::vector<float> grad(batch);
  run_streamed(state, 3 * float_bytes * static_cast<double>(batch), [&] {
    double loss = 0;
    on.mean_squared_error(batch, 1, outputs.data(), targets.data(), grad.data(), &loss);
    benchmark::DoNotOptimize(loss);
  });
}

BENCHMARK(cross_entropy)->ArgNames({"batch", "classes"})->Args({1024, 2})->Args({6, 8})->Unit(benchmark::kMicrosecond);
BENCHMARK(bce_with_logits)->ArgName("batch")->Arg(1024)->Arg(128)->Unit(benchmark::kMicrosecond);
BENCHMARK(mean_squared_error)->ArgName("batch")->Arg(1024)->Arg(128)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  using namespace troupe::bench;
  troupe::bench::machine = {troupe::bench::copy_rate(), troupe::bench::gather_rate(1), troupe::bench::sgemm_rate(1)};
  std::fprintf(stderr, "one core: copy %.1f GB/s, random rows %.1f GB/s, sgemm %.1f GFLOP/s\n",
               troupe::bench::machine.copy / 1e9, troupe::bench::machine.gather / 1e9,
               troupe::bench::machine.sgemm / 1e9);
  benchmark::AddCustomContext("copy_bytes_per_second", std::to_string(troupe::bench::machine.copy));
  benchmark::AddCustomContext("gather_bytes_per_second", std::to_string(troupe::bench::machine.gather));
  benchmark::AddCustomContext("sgemm_flop_per_second", std::to_string(troupe::bench::machine.sgemm));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
